"""Faults in where the bytes of MPI's types are."""

from catchers import Catcher

LAYOUT = "mpi/layout.c"
# The test is built for each MPI; this one starts without a launcher's daemon.
TYPES = Catcher("tests/mpi/mpi-layout-mpich")

FAULTS = [
    ("blocks of a type may stand in any order", LAYOUT, "    if (row->at + row->size != place) return 0;\n", "", TYPES),
    ("elements that are wider than their bytes have no gaps", LAYOUT, "if (count > 1 && element->extent != element->size) return 0;", "", TYPES),
    ("a part of an array is one run whatever it leaves out", LAYOUT, "        if (count != below && subsizes[d] != 1) return 0;\n", "", TYPES),
    ("a part of an array of Fortran's is read as one of C's", LAYOUT, "is_fortran ? i : dimensions - 1 - i", "dimensions - 1 - i", TYPES),
    ("what was found out about a type is kept without its place", LAYOUT, "keep(type, found, found ? row->at : 0)", "keep(type, found, 0)", TYPES),
    ("elements one behind the other are never wider", "mpi/payload.c", " || (count > 1 && row.extent != row.size)", "", TYPES),
]
