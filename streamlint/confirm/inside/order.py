"""Whether the order of two operations matters: both orders are tried out on the memory that they found.

That a later operation was done while an earlier one was held back is seen. It is a race if they do not
commute: with the same memory before, "first, second" and "second, first" leave other bytes. Two kernels
that only read a tensor commute, and so do two that write halves of it, or count with atomics. No schema and
no source is asked; calls are made again with the arguments that they had.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from streamlint.confirm.gpu.driver import DriverError
from streamlint.confirm.inside.calls import Copy, Launch, LaunchConfig, LaunchEx, Set8, Set16, Set32, Two
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streamlint.confirm.gpu.driver import Driver
    from streamlint.confirm.inside.calls import Queued
    from streamlint.confirm.inside.cupti import Call

_MOST_BYTES: Final = 1 << 28
_MOST_OF_ONE: Final = 1 << 27
_LOWEST_ADDRESS: Final = 1 << 16
_ATTRIBUTE_SIZE: Final = 72
_MOST_ATTRIBUTES: Final = 16
_LIMIT_S: Final = 5.0
_SHOWN: Final = 4


@frozen()
class Range:
    """A whole allocation, on the device or pinned."""

    start: int
    size: int
    on_host: bool = False


@frozen()
class Operation:
    """A call that can be made again, on any stream."""

    name: str
    ranges: frozenset[Range]
    """The allocations that its arguments point into."""
    again: Callable[[int], None]
    anywhere: bool = False
    """Whether it uses memory that nobody names: that of a graph. Effects on the other's memory are seen."""


@frozen()
class Conflict:
    """Two statements that do not commute."""

    earlier: str
    later: str
    offset: int
    """The first byte, from the begin of its allocation, that depends on the order."""
    in_order: str
    """What it and those behind it are if the earlier one runs first."""
    overtaken: str


@dataclass(slots=True)
class Memory:
    """What was in the allocations that the operations use, when the first of them was about to run."""

    driver: Driver
    stream: int
    before: dict[Range, bytes] = field(default_factory=dict)

    def see(self, one: Operation) -> None:
        for found in one.ranges:
            held = sum(len(content) for content in self.before.values())
            if found not in self.before and held + found.size <= _MOST_BYTES:
                self.before[found] = self._fetch(found)

    def conflict(self, earlier: Sequence[Operation], later: Sequence[Operation]) -> Conflict | None:
        """What depends on the order; ``None`` if nothing is seen to. The device is idle.

        :raises DriverError: an operation cannot be made again.
        """
        usable = [[one for one in some if one.ranges <= self.before.keys()] for some in (earlier, later)]
        first, second = usable
        somewhere = any(one.anywhere for one in (*first, *second))
        if not first or not second or not (somewhere or _ranges(first) & _ranges(second)):
            return None
        in_order, again = self._outcome([*first, *second]), self._outcome([*first, *second])
        other, other_again = self._outcome([*second, *first]), self._outcome([*second, *first])
        if in_order != again or other != other_again:
            return None  # another value each time: nothing can be said of the order
        for found in in_order:
            if in_order[found] != other[found]:
                offset = _first_difference(in_order[found], other[found])
                shown = slice(offset, offset + _SHOWN)
                return Conflict(
                    ", ".join(dict.fromkeys(one.name for one in first)),
                    ", ".join(dict.fromkeys(one.name for one in second)),
                    offset,
                    in_order[found][shown].hex(" "),
                    other[found][shown].hex(" "),
                )
        return None

    def _outcome(self, operations: Sequence[Operation]) -> dict[Range, bytes]:
        for found, content in self.before.items():
            if found.on_host:
                ctypes.memmove(found.start, content, found.size)
            else:
                self.driver.put(found.start, content, self.stream)
        for one in operations:
            one.again(self.stream)
        limit = time.monotonic() + _LIMIT_S
        while not self.driver.idle(self.stream):
            if time.monotonic() > limit:
                raise DriverError("an operation does not end when it is made again")
        return {found: self._fetch(found) for found in self.before}

    def _fetch(self, found: Range) -> bytes:
        if found.on_host:
            return ctypes.string_at(found.start, found.size)
        return self.driver.fetch(found.start, found.size, self.stream)


def _ranges(operations: Sequence[Operation]) -> set[Range]:
    return {found for one in operations for found in one.ranges}


def _first_difference(one: bytes, other: bytes) -> int:
    low, high = 0, len(one)
    while high - low > 1:  # by halves: a loop over millions of bytes takes seconds
        middle = (low + high) // 2
        low, high = (low, middle) if one[low:middle] != other[low:middle] else (middle, high)
    return low


def operation(call: Call, work: Queued, driver: Driver) -> Operation | None:
    """The call as something that can be made again; ``None`` if it cannot."""
    if work.layout is Copy:
        return _copy(call.arguments(Copy), work, driver)
    if work.layout in (Set8, Set16, Set32):
        assert work.layout is not None
        return _set(call.arguments(work.layout), work, driver)
    if work.layout in (Launch, LaunchEx):
        assert work.layout is not None
        return _launch(call, call.arguments(work.layout), work, driver)
    if work.name == "cuGraphLaunch":
        graph = int(call.arguments(Two).first)
        return Operation(
            work.name, frozenset(), lambda stream: driver.run_graph(graph, stream), anywhere=True
        )
    return None


def _copy(arguments: Any, work: Queued, driver: Driver) -> Operation | None:  # noqa: ANN401
    size = int(arguments.size)
    kept, ends = [], []
    for address, is_source in ((int(arguments.destination), False), (int(arguments.source), True)):
        found = _range_of(address, driver)
        if found is None:
            # Pageable memory: what is read is kept, and what is written there is not asked for.
            buffer = ctypes.create_string_buffer(size)
            if is_source:
                ctypes.memmove(buffer, address, size)
            kept.append(buffer)
            ends.append(ctypes.addressof(buffer))
        else:
            ends.append(address)
    ranges = frozenset(found for end in ends if (found := _range_of(end, driver)) is not None)

    def again(stream: int, buffers: object = tuple(kept)) -> None:
        del buffers  # which live as long as this function
        driver.copy(ends[0], ends[1], size, stream)

    return Operation(work.name, ranges, again) if _are_small(ranges) else None


def _set(arguments: Any, work: Queued, driver: Driver) -> Operation | None:  # noqa: ANN401
    address, value, count = int(arguments.destination), arguments.value, int(arguments.count)
    found = _range_of(address, driver)

    def again(stream: int) -> None:
        driver.must(
            work.name, ctypes.c_uint64(address), value, ctypes.c_size_t(count), ctypes.c_void_p(stream)
        )

    return (
        None if found is None or not _are_small({found}) else Operation(work.name, frozenset({found}), again)
    )


def _launch(call: Call, arguments: Any, work: Queued, driver: Driver) -> Operation | None:  # noqa: ANN401
    function = int(arguments.function)
    sizes = driver.parameter_sizes(function)
    if sizes is None or not arguments.parameters:
        return None
    pointers = (ctypes.c_void_p * max(1, len(sizes))).from_address(arguments.parameters)
    values = [
        ctypes.create_string_buffer(ctypes.string_at(p, n), n) for p, n in zip(pointers, sizes, strict=False)
    ]
    again_pointers = (ctypes.c_void_p * max(1, len(sizes)))(*[ctypes.addressof(value) for value in values])
    words = {word for value in values for word in _words(value.raw)}
    ranges = frozenset(found for word in words if (found := _range_of(word, driver)) is not None)
    if not _are_small(ranges):
        return None
    again = _relaunch(arguments, work, driver, (again_pointers, values))
    return Operation(call.symbol or work.name, ranges, again)


def _relaunch(
    arguments: Any,  # noqa: ANN401
    work: Queued,
    driver: Driver,
    parameters: tuple[Any, object],
) -> Callable[[int], None]:
    """``parameters``: pointers to the values, and what keeps those."""
    function, pointers = int(arguments.function), parameters[0]
    is_extended = work.layout is LaunchEx
    given = arguments.config.contents if is_extended else arguments
    shape = [getattr(given, name) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")]
    count = min(int(given.count), _MOST_ATTRIBUTES) if is_extended else 0
    size = count * _ATTRIBUTE_SIZE
    attributes = ctypes.create_string_buffer(
        ctypes.string_at(given.attributes, size) if count else b"", size + 1
    )

    def launch(stream: int, kept: object = parameters) -> None:
        del kept  # which lives as long as this function
        handle = ctypes.c_void_p(function)
        if is_extended:
            config = LaunchConfig(*shape, stream, ctypes.addressof(attributes) if count else None, count)
            driver.must(work.name, ctypes.byref(config), handle, pointers, None)
        else:
            last = [] if work.name == "cuLaunchCooperativeKernel" else [None]
            driver.must(work.name, handle, *shape, ctypes.c_void_p(stream), pointers, *last)

    return launch


def _words(value: bytes) -> list[int]:
    """What may be an address in a parameter: a pointer, or a struct with pointers in it."""
    return [int.from_bytes(value[i : i + 8], "little") for i in range(0, len(value) - 7, 8)]


def _range_of(address: int, driver: Driver) -> Range | None:
    if address < _LOWEST_ADDRESS:
        return None
    found = driver.range_of(address)
    return None if found is None else Range(*found)


def _are_small(ranges: frozenset[Range] | set[Range]) -> bool:
    return all(found.size <= _MOST_OF_ONE for found in ranges)
