#!/usr/bin/env python3
"""Objects that mpi4py pickles come out of every broadcast as they went in: mpirun -n 4 /usr/bin/python3 pickled.py [TURNS]"""

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
turns = int(sys.argv[1]) if len(sys.argv) > 1 else 40
objects = [{"name": "tree", "leaves": [1, 2.5, None], "nested": {"deep": (True, "ä" * 100)}}, list(range(2000)), b"\x00" * 50000, "", None]

wrong = 0
for turn in range(turns):
    root = turn % size
    sent = [turn, objects[turn % len(objects)]]
    wrong += comm.bcast(sent if rank == root else None, root=root) != sent
    buffer = bytearray(str(turn % 10).encode() if rank == root else b"--")[:1]
    comm.Bcast(buffer, root=root)
    wrong += bytes(buffer) != str(turn % 10).encode()[:1]
comm.Barrier()
all_wrong = comm.reduce(wrong)
if rank == 0:
    print(f"{2 * turns} broadcasts among {size} processes: {all_wrong} wrong")
