"""What kernels do to the memory that their arguments point to, learnt at their first launches.

No table has the kernels of a program. So the first launches of each are watched: the device becomes idle,
the contents behind each pointer are kept, and compared when the launch is done. What changed was written;
of what did not change nobody knows, and it counts as read: at the pointer, and perhaps as far as its block
goes. (``add(x[:100], 1, out=y[:100])`` has no pointer that says where it ends.) How many bytes a launch
writes depends on its grid and on its numbers, so what is learnt holds for launches that have the same.
"""

from __future__ import annotations

import ctypes
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from streamlint.confirm.gpu.driver import Driver, DriverError, DriverUnavailableError
from streamlint.confirm.inside.calls import Launch, LaunchEx, queued
from streamlint.confirm.observe.events import Touch
from streamlint.frozen import frozen
from streamlint.trace import Doubt, Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streamlint.confirm.inside.cupti import Call
    from streamlint.confirm.observe.events import Block, Touched
    from streamlint.trace import BufferId

_MOST_LOOKS: Final = 3
"""At launches with the same grid and numbers, if any wrote: what is there already is no change."""

_MOST_LOOKS_AT_ALL: Final = 24
_MOST_BYTES: Final = 1 << 20
_IDLE_S: Final = 0.5
_ENDS_S: Final = 2.0
"""A kernel that runs alone for longer, at one of its first launches, waits for what comes after it."""

_ELEMENT: Final = 8
"""Bytes that are read at a pointer, if any are. Of a number that was written only some may have changed."""

_LOWEST_ADDRESS: Final = 1 << 16
_NOT_NAMED: Final = 1 << 16
"""Not the place of an argument in the source."""

_OPAQUE: Final = frozenset({Doubt.OPAQUE})
_PERHAPS_LESS: Final = frozenset({Doubt.OPAQUE, Doubt.ALIAS})
_WRITES_ELSEWHERE: Final = frozenset({Doubt.INFERRED})


@frozen()
class Pointer:
    """The argument of a kernel, by its place, that points into a block."""

    place: tuple[int, int]
    """The parameter, and the byte in it: a struct may hold several pointers."""
    address: int
    block: Block

    @property
    def lo(self) -> int:
        return self.address - self.block.start

    @property
    def looked_at(self) -> int:
        return max(0, min(self.block.size - self.lo, _MOST_BYTES))


@dataclass(slots=True)
class Kind:
    """What is known of launches with the same grid and numbers, whose pointers share memory in the same way.

    In ``cp.add(x, y, out=x)`` memory changes behind the first pointer, too; in ``cp.add(x, y, out=z)`` not.
    """

    looks: int = 0
    written: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """By the place of a pointer: the bytes from it, first and end, that were seen to change."""


@dataclass(slots=True)
class Kernel:
    """What is known of one function of a module."""

    sizes: list[int] | None
    kinds: dict[bytes, Kind] = field(default_factory=dict)
    looks: int = 0
    written: set[tuple[int, int]] = field(default_factory=set)
    """The pointers behind which some launch wrote."""


@dataclass(slots=True)
class Watched:
    """A launch that is being looked at."""

    kernel: Kernel
    kind: Kind
    pointers: list[Pointer]
    before: list[bytes]
    touches: list[Touched]
    """Those that were told of; what is learnt goes there."""


class Kernels:
    """All kernels of the process."""

    def __init__(
        self,
        find: Callable[[int], Block | None],
        streams: Callable[[], Iterable[int]],
        waits: Callable[[], None],
    ) -> None:
        """``waits`` is told when a kernel does not end by itself: it polls memory."""
        self._find = find
        self._streams = streams
        self._waits = waits
        self._known: dict[int, Kernel] = {}
        self._driver: Driver | None = None
        self._own = 0

    def launched(self, call: Call, *, look: bool) -> tuple[list[Touched], Watched | None]:
        """What a launch that is about to be made touches, and what to hand to ``done`` when it was made."""
        if self._driver is None:
            try:
                self._driver = Driver()
            except DriverUnavailableError:
                return [], None
        layout = queued(call).layout
        if layout not in (Launch, LaunchEx):
            return [], None
        arguments = call.arguments(layout)
        kernel = self._kernel(int(arguments.function or 0), self._driver)
        pointers, numbers = self._parameters(kernel, int(arguments.parameters or 0))
        grid = arguments.config.contents if layout is LaunchEx else arguments
        shape = [int(getattr(grid, name)) for name in ("gx", "gy", "gz", "bx", "by", "bz")]
        key = numbers + repr((shape, _shared(pointers))).encode()
        kind = kernel.kinds.get(key, Kind())
        touches = _touches(kernel, kind, pointers)
        # A kernel writes something: one that was not seen to change anything is not known yet.
        learnt = kind.looks >= _MOST_LOOKS and kind.written
        enough = learnt or kernel.looks >= _MOST_LOOKS_AT_ALL
        if not look or not pointers or enough or not self._idle(self._driver):
            return touches, None
        kernel.kinds[key] = kind
        return touches, Watched(kernel, kind, pointers, self._contents(pointers, self._driver), touches)

    def forget(self) -> None:
        self._known.clear()

    def done(self, watched: Watched) -> None:
        """The launch was made."""
        if self._driver is None:
            return
        if not self._idle(self._driver, _ENDS_S):
            self._waits()
            return
        after = self._contents(watched.pointers, self._driver)
        uses = Counter(pointer.block.id for pointer in watched.pointers)
        for pointer, old, new in zip(watched.pointers, watched.before, after, strict=True):
            if old != new:
                first, end = _changed(old, new)
                if end == len(new) < pointer.block.size - pointer.lo:
                    end = pointer.block.size - pointer.lo  # what was not looked at
                known = watched.kind.written.get(pointer.place, (first, end))
                watched.kind.written[pointer.place] = min(first, known[0]), max(end, known[1])
                if uses[pointer.block.id] == 1:
                    # Else nobody knows by which of the pointers it was written.
                    watched.kernel.written.add(pointer.place)
        watched.kind.looks += 1
        watched.kernel.looks += 1
        watched.touches[:] = _touches(watched.kernel, watched.kind, watched.pointers)

    def _kernel(self, function: int, driver: Driver) -> Kernel:
        known = self._known.get(function)
        if known is None:
            known = self._known[function] = Kernel(driver.parameter_sizes(function))
        return known

    def _parameters(self, kernel: Kernel, parameters: int) -> tuple[list[Pointer], bytes]:
        """The pointers among them, and all that is none."""
        if not parameters or not kernel.sizes:
            return [], b""
        found, numbers = [], b""
        values = (ctypes.c_void_p * len(kernel.sizes)).from_address(parameters)
        for number, (at, size) in enumerate(zip(values, kernel.sizes, strict=True)):
            raw = ctypes.string_at(at, size) if at else b""
            for offset in range(0, len(raw) - 7, 8):
                address = int.from_bytes(raw[offset : offset + 8], "little")
                block = self._find(address) if address >= _LOWEST_ADDRESS else None
                if block is not None:
                    found.append(Pointer((number, offset), address, block))
                else:
                    numbers += raw[offset : offset + 8]
            numbers += raw[len(raw) // 8 * 8 :]
        return found, numbers

    def _idle(self, driver: Driver, longest: float = _IDLE_S) -> bool:
        """Whether all work is done, soon: a kernel may wait for what the host does next."""
        limit = time.monotonic() + longest
        for stream in self._streams():
            with suppress(DriverError):  # it was destroyed
                while not driver.idle(stream):
                    if time.monotonic() > limit:
                        return False
        return True

    def _contents(self, pointers: list[Pointer], driver: Driver) -> list[bytes]:
        self._own = self._own or driver.new_stream()
        return [self._content(pointer, driver) for pointer in pointers]

    def _content(self, pointer: Pointer, driver: Driver) -> bytes:
        try:
            return driver.fetch(pointer.address, pointer.looked_at, self._own)
        except DriverError:
            return b""


def _shared(pointers: list[Pointer]) -> list[tuple[int, int]]:
    """Of each pointer the first one into the same block, and how far behind that it points."""
    first: dict[BufferId, tuple[int, int]] = {}
    shared = []
    for number, pointer in enumerate(pointers):
        head, address = first.setdefault(pointer.block.id, (number, pointer.address))
        shared.append((head, pointer.address - address))
    return shared


def _touches(kernel: Kernel, kind: Kind, pointers: list[Pointer]) -> list[Touched]:
    """Bytes that are known to be written; all behind another pointer, which may be read, or not be used."""
    touches: list[Touched] = []
    for pointer in pointers:
        lo, end = pointer.lo, pointer.block.size
        if pointer.place in kind.written:
            first, last = kind.written[pointer.place]
            touches.append(
                Touch(pointer.block, Mode.WRITE, lo + first, min(lo + last, end), operand=_NOT_NAMED)
            )
        else:
            mode, near = _unchanged(kernel, kind, pointer)
            middle = min(lo + _ELEMENT, end)
            for start, stop, doubts in ((lo, middle, near), (middle, end, near | _PERHAPS_LESS)):
                if start < stop:
                    touches.append(Touch(pointer.block, mode, start, stop, operand=_NOT_NAMED, doubts=doubts))
    return touches


def _unchanged(kernel: Kernel, kind: Kind, pointer: Pointer) -> tuple[Mode, frozenset[Doubt]]:
    """What may be done behind a pointer where nothing was seen to change, and why that is not certain."""
    if pointer.place in kernel.written and not kind.written:
        # As other launches do: `copyto(y, x)` of an equal `x` changes nothing.
        return Mode.UPDATE, _WRITES_ELSEWHERE
    return (Mode.READ if kernel.looks else Mode.UPDATE), _OPAQUE


def _changed(old: bytes, new: bytes) -> tuple[int, int]:
    """From the first byte to the last that differs."""
    size = min(len(old), len(new))
    first, end = 0, size
    for step in (4096, 1):  # pages first: a loop over each byte of a megabyte takes long
        while first < end and old[first : first + step] == new[first : first + step]:
            first += step
        while end > first and old[max(0, end - step) : end] == new[max(0, end - step) : end]:
            end -= step
    return first, max(first, end)
