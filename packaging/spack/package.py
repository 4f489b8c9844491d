# A recipe for Spack. It has never been run: there was no Spack to run it with. Give `git` the address of your copy of the sources.
from spack.package import *


class Coppice(MesonPackage):
    """Group communication that goes on when processes die."""

    git = "file:///path/to/coppice"

    license("BSD-3-Clause")

    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("meson@1.0:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")

    # Loaded when they are used; found by the run path that Spack's compilers give to all that they link.
    depends_on("ucx@1.13:")
    depends_on("rdma-core@44:")
    depends_on("libsodium@1.0.18:")
    depends_on("fmt@9:")
    depends_on("hwloc@2.9:")
    depends_on("cli11", type="build")
    depends_on("nlohmann-json", type="build")
    depends_on("tl-expected", type="build")
    depends_on("iproute2", type="run")
    depends_on("python@3.9:", type=("build", "run"))

    # GCC 12 and Clang 14 are the oldest that are known to work.
    conflicts("%gcc@:11")

    def meson_args(self):
        return ["-Dtests=false"]
