"""Modules that a program loads between two operations are loaded before the first of them is held back.

To load a module waits for all work of the device, also for a gate. So the run without gates keeps what
is loaded while a turn lasts, and the run with a gate loads the same before it closes the gate. When the
program then asks for one of them, the call is answered with what is there: its image is taken away, so
that it fails at once, and its result is replaced.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamlint.confirm.inside.calls import LOADS
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from streamlint.confirm.gpu.driver import Driver
    from streamlint.confirm.inside.cupti import Call

_MOST_BYTES: Final = 1 << 26
_MOST_KEPT: Final = 4096
"""The first product of two matrices loads a thousand modules of cuBLAS."""

_ELF: Final = b"\x7fELF"
_FATBIN: Final = 0xBA55ED50
_WRAPPER: Final = 0x466243B1


class _Load(ctypes.Structure):
    """How the arguments of all calls begin that load from memory."""

    _fields_ = (("handle", ctypes.POINTER(ctypes.c_void_p)), ("image", ctypes.c_void_p))


@frozen()
class Image:
    """Where a file has an image: a library that is mapped, or one that was written for it."""

    file: str
    offset: int
    size: int


def extent(address: int) -> tuple[int, int] | None:
    """Where a cubin, a fat binary or a text of PTX begins, and its size; ``None`` for all else."""
    magic: int = struct.unpack("<I", ctypes.string_at(address, 4))[0]
    if magic == _WRAPPER:
        return extent(struct.unpack("<Q", ctypes.string_at(address + 8, 8))[0])
    if magic == _FATBIN:
        header, rest = struct.unpack("<HQ", ctypes.string_at(address + 6, 10))
        return address, header + rest
    if ctypes.string_at(address, 4) == _ELF:
        head = ctypes.string_at(address, 64)
        programs, sections = struct.unpack_from("<QQ", head, 32)
        program_size, program_count, section_size, section_count = struct.unpack_from("<HHHH", head, 54)
        return address, max(programs + program_size * program_count, sections + section_size * section_count)
    if ctypes.string_at(address, 2) in (b"//", b".v", b"\n/", b"\n."):
        return address, len(ctypes.string_at(address)) + 1
    return None


def located(address: int, folder: Path) -> Image | None:
    """The image at an address: in the library that it was mapped from, or by its content in ``folder``.

    Those of cuBLAS have hundreds of megabytes, which nobody wants to copy; what is compiled has few.
    """
    found = extent(address)
    if found is None:
        return None
    mapped = _mapped(*found)
    if mapped is not None:
        return mapped
    start, size = found
    if size > _MOST_BYTES:
        return None
    name = hashlib.sha256(ctypes.string_at(start, size)).hexdigest()
    return Image(str(folder / name), 0, size)


_libraries: list[tuple[int, int, int, str]] = []
"""Where files are mapped that images were found in: first address, end, offset in the file, and its path."""


def _mapped(start: int, size: int) -> Image | None:
    for first, end, offset, path in _libraries:
        if first <= start and start + size <= end:
            return Image(path, offset + start - first, size)
    for line in Path("/proc/self/maps").read_text("utf-8", "replace").splitlines():
        addresses, _, offset_there, _, _, *name = line.split(maxsplit=5)
        first, end = (int(word, 16) for word in addresses.split("-"))
        if first <= start and start + size <= end:
            if not name or not name[0].startswith("/") or not Path(name[0]).is_file():
                return None
            _libraries.append((first, end, int(offset_there, 16), name[0]))
            return _mapped(start, size)
    return None


def _list_of(folder: Path, finding: int, turn: int) -> Path:
    return folder / f"{finding}-{turn}.txt"


def keep(call: Call, folder: Path, turns: list[tuple[int, int]]) -> None:
    """Before a module is loaded: write down what it is, for the turns that have begun."""
    address = call.arguments(_Load).image
    found = located(address, folder) if address and turns else None
    if found is None:
        return
    path = Path(found.file)
    if path.parent == folder and not path.exists():
        path.write_bytes(ctypes.string_at(*(extent(address) or (0, 0))))
    kind = _kind(call)
    for finding, turn in turns:
        with _list_of(folder, finding, turn).open("a", encoding="utf-8") as file:
            file.write(f"{kind} {found.offset} {found.size} {found.file}\n")


def _kind(call: Call) -> str:
    return "library" if "Library" in call.name else "module"


class Shelf:
    """Modules of one turn that are loaded already; each is handed out once."""

    def __init__(self, driver: Driver, folder: Path, finding: int, turn: int) -> None:
        self._folder = folder
        self._ready: dict[tuple[str, Image], list[int]] = {}
        self._due: dict[int, int] = {}
        self._nothing = ctypes.create_string_buffer(64)
        self._views: dict[str, mmap.mmap] = {}
        self._read: list[object] = []
        """What modules were loaded from: a kernel may be fetched from there when it is launched."""
        listed = _list_of(folder, finding, turn)
        lines = listed.read_text("utf-8").splitlines() if listed.exists() else []
        for line in lines[:_MOST_KEPT]:
            kind, offset, size, file = line.split(maxsplit=3)
            image = Image(file, int(offset), int(size))
            handle = driver.load_image(self._content(image), library=kind == "library")
            if handle:
                self._ready.setdefault((kind, image), []).append(handle)

    def _content(self, image: Image) -> ctypes.Array[ctypes.c_char]:
        if image.file not in self._views:
            with Path(image.file).open("rb") as file:
                # A private view, which costs no memory where it is only read.
                self._views[image.file] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        content = (ctypes.c_char * image.size).from_buffer(self._views[image.file], image.offset)
        self._read.append(content)
        return content

    def answer(self, call: Call, thread: int) -> None:
        """Before and after a call that loads a module."""
        if not LOADS.match(call.name):
            return
        arguments = call.arguments(_Load)
        if not call.entering:
            handle = self._due.pop(thread, None)
            if handle is not None:
                arguments.handle[0] = handle
                ctypes.c_int.from_address(call.result).value = 0
            return
        found = located(arguments.image, self._folder) if arguments.image and self._ready else None
        if found is None:
            return
        key = _kind(call), found
        if self._ready.get(key):
            self._due[thread] = self._ready[key].pop()
            arguments.image = None if key[0] == "library" else ctypes.addressof(self._nothing)
