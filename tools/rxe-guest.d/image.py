#!/usr/bin/env python3
"""Makes what QEMU boots out of unpacked packages: image.py UNPACKED INIT OUT

UNPACKED holds a linux-image package and busybox-static as dpkg-deb -x leaves them. Written are OUT/kernel and
OUT/initrd: busybox, INIT as /init, and the kernel modules that the guest needs, numbered in the order of loading.
"""
import lzma
import os
import pathlib
import re
import sys
import zlib

# What the guest needs; what these need themselves is found out.
MODULES = """virtio_pci virtio_console virtio_rng 9pnet_virtio 9p overlay
             crc32_pclmul crc32_generic crc32c_generic veth bridge sch_netem ib_umad rdma_ucm rdma_rxe""".split()


def unpacked_kernel(image):
    """The ELF file inside of a bzImage: started directly it boots seconds faster under emulation. Or the bzImage."""
    setup_sectors = image[0x1F1] or 4
    start = (setup_sectors + 1) * 512 + int.from_bytes(image[0x248:0x24C], "little")
    payload = image[start:start + int.from_bytes(image[0x24C:0x250], "little")]
    try:
        if payload.startswith(b"\xfd7zXZ"):
            kernel = lzma.LZMADecompressor().decompress(payload)
        elif payload.startswith(b"\x1f\x8b"):
            kernel = zlib.decompressobj(31).decompress(payload)
        else:
            return image
    except (lzma.LZMAError, zlib.error):
        return image
    return kernel if kernel.startswith(b"\x7fELF") else image


def canonical(name):
    return name.replace("-", "_")


def module_bytes(path):
    content = path.read_bytes()
    return lzma.decompress(content) if path.name.endswith(".xz") else content


def modules_in_order(root):
    """(name, content) of each module that is needed, every one after those that it depends on."""
    files = {canonical(re.sub(r"\.ko(\.xz)?$", "", path.name)): path
             for path in root.rglob("*.ko*") if re.search(r"\.ko(\.xz)?$", path.name)}
    built_in = {canonical(pathlib.Path(line).stem) for line in (root / "modules.builtin").read_text().split()}
    loaded = {}

    def load(name):
        if name in loaded or name in built_in:
            return
        if name not in files:
            sys.exit(f"the kernel package has no module {name}: is it linux-image-amd64 of Debian, not the cloud's?")
        content = module_bytes(files[name])
        found = re.search(rb"(?:^|\0)depends=([^\0]*)\0", content)
        for other in found.group(1).decode().split(",") if found else ():
            if other:
                load(canonical(other))
        loaded[name] = content

    for name in MODULES:
        load(name)
    return list(loaded.items())


class Archive:
    """A cpio archive of the kind that the kernel unpacks ("newc")."""

    def __init__(self):
        self.data = bytearray()
        self.inode = 0

    def add(self, name, mode, content=b""):
        self.inode += 1
        encoded = name.encode() + b"\0"
        fields = [self.inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0]
        self.data += b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
        self.pad()
        self.data += content
        self.pad()

    def pad(self):
        self.data += b"\0" * (-len(self.data) % 4)

    def directory(self, name):
        self.add(name, 0o040755)

    def file(self, name, content, mode=0o755):
        self.add(name, 0o100000 | mode, content)

    def finished(self):
        self.add("TRAILER!!!", 0)
        return bytes(self.data)


def main():
    unpacked, init, out = (pathlib.Path(argument) for argument in sys.argv[1:])
    kernels = sorted((unpacked / "boot").glob("vmlinuz-*"))
    if not kernels:
        sys.exit("the kernel package has no /boot/vmlinuz-…: a linux-image package of Debian is needed")
    version = kernels[-1].name.removeprefix("vmlinuz-")

    archive = Archive()
    for name in ("bin", "dev", "proc", "sys", "modules", "host", "upper", "system"):
        archive.directory(name)
    archive.file("bin/busybox", (unpacked / "bin/busybox").read_bytes())
    archive.file("init", init.read_bytes())
    for number, (name, content) in enumerate(modules_in_order(unpacked / "lib/modules" / version)):
        archive.file(f"modules/{number:03}-{name}.ko", content, 0o644)

    (out / "kernel").write_bytes(unpacked_kernel(kernels[-1].read_bytes()))
    (out / "initrd").write_bytes(archive.finished())
    (out / "version").write_text(version + os.linesep)


if __name__ == "__main__":
    main()
