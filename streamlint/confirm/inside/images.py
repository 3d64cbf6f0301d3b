"""Modules that a program loads between two operations are loaded before the first of them is held back.

To load a module waits for all work of the device, also for a gate. So the run without gates keeps what
is loaded while a turn lasts, and the run with a gate loads the same before it closes the gate. When the
program then asks for one of them, the call is answered with what is there: its image is taken away, so
that it fails at once, and its result is replaced.
"""

from __future__ import annotations

import ctypes
import hashlib
import struct
from typing import TYPE_CHECKING, Final

from streamlint.confirm.inside.calls import LOADS

if TYPE_CHECKING:
    from pathlib import Path

    from streamlint.confirm.gpu.driver import Driver
    from streamlint.confirm.inside.cupti import Call

_MOST_BYTES: Final = 1 << 26
_MOST_KEPT: Final = 256
_ELF: Final = b"\x7fELF"
_FATBIN: Final = 0xBA55ED50
_WRAPPER: Final = 0x466243B1


class _Load(ctypes.Structure):
    """How the arguments of all calls begin that load from memory."""

    _fields_ = (("handle", ctypes.POINTER(ctypes.c_void_p)), ("image", ctypes.c_void_p))


def content(address: int) -> bytes | None:
    """The bytes of a cubin, a fat binary or a text of PTX; ``None`` for all else, and what is too large."""
    magic: int = struct.unpack("<I", ctypes.string_at(address, 4))[0]
    if magic == _WRAPPER:
        return content(struct.unpack("<Q", ctypes.string_at(address + 8, 8))[0])
    if magic == _FATBIN:
        header, rest = struct.unpack("<HQ", ctypes.string_at(address + 6, 10))
        return _limited(address, header + rest)
    if ctypes.string_at(address, 4) == _ELF:
        head = ctypes.string_at(address, 64)
        programs, sections = struct.unpack_from("<QQ", head, 32)
        program_size, program_count, section_size, section_count = struct.unpack_from("<HHHH", head, 54)
        end = max(programs + program_size * program_count, sections + section_size * section_count)
        return _limited(address, end)
    text = ctypes.string_at(address, 2)
    return ctypes.string_at(address) + b"\0" if text in (b"//", b".v", b"\n/", b"\n.") else None


def _limited(address: int, size: int) -> bytes | None:
    return ctypes.string_at(address, size) if size <= _MOST_BYTES else None


def _list_of(folder: Path, finding: int, turn: int) -> Path:
    return folder / f"{finding}-{turn}.txt"


def keep(call: Call, folder: Path, turns: list[tuple[int, int]]) -> None:
    """Before a module is loaded: write down what it is, for the turns that have begun."""
    image = call.arguments(_Load).image
    found = content(image) if image and turns else None
    if found is None:
        return
    name = hashlib.sha256(found).hexdigest()
    path = folder / name
    if not path.exists():
        path.write_bytes(found)
    for finding, turn in turns:
        with _list_of(folder, finding, turn).open("a", encoding="utf-8") as file:
            file.write(f"{'library' if 'Library' in call.name else 'module'} {name}\n")


class Shelf:
    """Modules of one turn that are loaded already; each is handed out once."""

    def __init__(self, driver: Driver, folder: Path, finding: int, turn: int) -> None:
        self._ready: dict[tuple[str, str], list[int]] = {}
        self._due: dict[int, int] = {}
        self._nothing = ctypes.create_string_buffer(64)
        listed = _list_of(folder, finding, turn)
        lines = listed.read_text("utf-8").splitlines() if listed.exists() else []
        for line in lines[:_MOST_KEPT]:
            kind, name = line.split()
            handle = driver.load_image((folder / name).read_bytes(), library=kind == "library")
            if handle:
                self._ready.setdefault((kind, name), []).append(handle)

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
        found = content(arguments.image) if arguments.image and self._ready else None
        if found is None:
            return
        key = "library" if "Library" in call.name else "module", hashlib.sha256(found).hexdigest()
        if self._ready.get(key):
            self._due[thread] = self._ready[key].pop()
            arguments.image = None if key[0] == "library" else ctypes.addressof(self._nothing)
