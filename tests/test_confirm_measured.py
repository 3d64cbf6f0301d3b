"""What a GPU measured of a racing run: CUPTI's records, and the picture of them."""

from __future__ import annotations

import ctypes
import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamlint.confirm.inside import outcome
from streamlint.confirm.inside.activity import Activity, Record
from streamlint.confirm.inside.lookout import Statement
from streamlint.confirm.inside.turns import Later, Turn
from streamlint.confirm.report import measured
from streamlint.confirm.run.seen import Span

FILL = b"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_"


def kernel(name: ctypes.c_char_p, stream: int, correlation: int, start: int, end: int) -> bytes:
    """As an H100 with CUDA 13 writes it."""
    head = struct.pack("<IIIIQQQIII", 10, 0, 0, 0, start, end, 0, 0, 1, stream)
    address = ctypes.cast(name, ctypes.c_void_p).value or 0
    return head + bytes(40) + struct.pack("<IqQ", correlation, 0, address) + bytes(40)


def copy(stream: int, correlation: int, start: int, end: int) -> bytes:
    return struct.pack("<IIQQQIIII", 1, 0, 64, start, end, 0, 1, stream, correlation) + bytes(104)


class FakeCupti:
    """Fills a buffer when it is told to flush."""

    def __init__(self, records: list[bytes]) -> None:
        self.records, self.enabled = records, list[int]()

    def cuptiActivityRegisterCallbacks(self, request: Any, complete: Any) -> None:  # noqa: ANN401, N802
        self.request, self.complete = request, complete

    def cuptiActivityEnable(self, kind: int) -> None:  # noqa: N802
        self.enabled.append(kind)

    def cuptiActivityFlushAll(self, _flag: int) -> None:  # noqa: N802
        buffer, size, most = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
        self.request(ctypes.byref(buffer), ctypes.byref(size), ctypes.byref(most))
        content = b"".join(self.records)
        ctypes.memmove(buffer, content, len(content))
        self.begin = buffer.value or 0
        self.complete(None, 0, buffer, size, len(content))

    def cuptiActivityGetNextRecord(self, _buffer: Any, _valid: Any, at: Any) -> int:  # noqa: ANN401, N802
        pointer = at._obj
        sizes = [len(record) for record in self.records]
        places = [self.begin + sum(sizes[:number]) for number in range(len(sizes))]
        following = places.index(pointer.value) + 1 if pointer.value else 0
        if following == len(places):
            return 12
        pointer.value = places[following]
        return 0


def test_records_are_read_from_the_buffers_that_cupti_fills() -> None:
    name = ctypes.c_char_p(FILL)
    cupti = FakeCupti([kernel(name, 13, 5, 100, 200), copy(7, 6, 150, 160)])
    activity = Activity(cupti)
    fill, moved = activity.records()
    assert cupti.enabled == [1, 2, 10]
    assert (fill.stream, fill.correlation, fill.start, fill.end) == (13, 5, 100, 200)
    assert fill.name in ("at::native::vectorized_elementwise_kernel", FILL.decode())
    assert moved == Record("copy", 7, 6, 150, 160)


def test_a_gate_that_is_queued_inside_a_call_is_no_part_of_its_work() -> None:
    records = [
        Record("streamlint_hold", 13, 5, 10, 90),
        Record("fill", 13, 5, 91, 95),
        Record("sum", 7, 6, 50, 60),
        Record("other", 7, 9, 70, 80),
    ]
    lookout = SimpleNamespace(activity=SimpleNamespace(records=lambda: records))
    earlier, later = Turn(0, 1), Later(closed=True, own=False)
    earlier.queued = Statement(1, earlier=True, calls=[5], host=[1, 20])
    later.queued = Statement(1, earlier=False, calls=[6], host=[30, 40])
    told = outcome.measured(cast("Any", lookout), earlier, later)
    assert (told["finding"], told["turn"]) == (0, 1)
    spans = [Span(*each) for each in told["spans"]]
    assert [(one.part, one.lane, one.name) for one in spans] == [
        ("earlier", "host", ""),
        ("earlier", "stream 13", "fill"),
        ("later", "host", ""),
        ("later", "stream 7", "sum"),
        ("gate", "stream 13", ""),
    ]
    assert measured.came_first(spans)


@pytest.mark.parametrize(("end", "first"), [(60, True), (94, False)])
def test_what_came_first_is_what_was_over_before(end: int, first: bool) -> None:
    spans = [Span("earlier", "stream 13", "fill", 91, 95), Span("later", "host", "", 50, end)]
    assert measured.came_first(spans) is first


def test_the_picture_has_a_lane_for_the_host_and_for_each_stream() -> None:
    spans = [
        Span("earlier", "host", "", 0, 3_000_000),
        Span("gate", "stream 13", "", 1_000_000, 6_000_000),
        Span("later", "stream 7", "<sum>", 4_000_000, 4_002_000),
        Span("earlier", "stream 13", "fill", 6_001_000, 6_003_000),
    ]
    drawn = measured.drawn(spans)
    assert drawn.index(">host<") < drawn.index(">stream 13<") < drawn.index(">stream 7<")
    assert "&lt;sum&gt;" in drawn
    assert drawn.count('text-anchor="middle">A<') == 2
    rows = "\n".join(measured.table(spans))
    assert rows.index("held back") < rows.index("4.000 ms") < rows.index("6.001 ms")
