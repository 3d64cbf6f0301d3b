"""From what a tracer saw to a trace: what is left out changes nothing, windows neither lose nor invent."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlint.confirm.observe.events import (
    Block,
    Place,
    Strides,
    Touch,
    Touched,
)
from streamlint.confirm.observe.layout import layout
from streamlint.confirm.observe.recorder import Recorder, Window
from streamlint.confirm.observe.sites import Sources
from streamlint.confirm.observe.translate import region, trace_of
from streamlint.finding import Confidence
from streamlint.judging.judge import findings_of_recording
from streamlint.order.conflicts import conflicts
from streamlint.order.hb import HappensBefore, Verdict
from streamlint.trace import (
    Alloc,
    BufferId,
    Copy,
    Free,
    FreeKind,
    HostAccess,
    HostEffect,
    Launch,
    Mode,
    OpId,
    Provenance,
    Space,
    StreamId,
    StreamKind,
    Trace,
)
from streamlint.trace.regions import Overlap, Region, overlap

DEFAULT, SIDE, OTHER = 0, 0x100, 0x200


@dataclass
class Run:
    """A recorder whose places are the numbers of the calls, and the windows it judged."""

    root: Path
    half: int = 1000
    kind: StreamKind = StreamKind.NON_BLOCKING
    windows: list[Window] = field(default_factory=list)
    calls: int = 0
    over: bool = False

    def __post_init__(self) -> None:
        self.recorder = Recorder(
            self._where, lambda: (self._where(),), lambda _: self.kind, self.windows.append, self.half
        )

    def _where(self) -> Place:
        # One code object a call, with its only statement on the line that counts the calls.
        self.calls += 1
        code = compile("\n" * self.calls + "a", "observed.py", "exec")
        return (code, next(start for start, _, line in code.co_lines() if line == self.calls + 1))

    def stream(self, handle: int) -> StreamId:
        return self.recorder.stream(handle, "0")

    def block(self, start: int, size: int = 64, owner: int | None = DEFAULT) -> Block:
        stream = None if owner is None else self.stream(owner)
        return self.recorder.born(start, size, Space.DEVICE, "0", stream)

    def work(self, handle: int, *touches: tuple[Block, Mode]) -> None:
        whole: list[Touched] = [Touch(block, mode, 0, block.size) for block, mode in touches]
        self.recorder.work(self.stream(handle), "kernel", whole)

    def record(self, event: int, handle: int) -> None:
        self.recorder.record(self.recorder.event(event, "0"), self.stream(handle))

    def wait(self, handle: int, event: int) -> None:
        self.recorder.wait(self.stream(handle), self.recorder.event(event, "0"))

    def traces(self) -> list[Trace]:
        """The traces of all windows; the run is over when they are asked for."""
        if not self.over:
            self.recorder.turn()
            self.over = True
        made = [trace_of(window, Sources(self.root)) for window in self.windows]
        return [trace for trace in made if trace is not None]

    def trace(self) -> Trace:
        (trace,) = self.traces()
        return trace

    def codes(self) -> list[str]:
        return [item.finding.code for trace in self.traces() for item in findings_of_recording(trace)]


def launches(trace: Trace) -> list[Launch]:
    return [op for op in trace.ops if isinstance(op, Launch)]


# ----------------------------------------------------------------------------- what is kept


def test_memory_of_one_stream_is_left_out(tmp_path: Path) -> None:
    run = Run(tmp_path)
    x = run.block(0x1000)
    for _ in range(5):
        run.work(DEFAULT, (x, Mode.UPDATE))
    assert run.traces() == []


def test_memory_of_two_streams_is_kept(tmp_path: Path) -> None:
    run = Run(tmp_path)
    x, private = run.block(0x1000), run.block(0x2000)
    run.work(DEFAULT, (x, Mode.WRITE), (private, Mode.WRITE))
    run.work(SIDE, (x, Mode.READ))
    trace = run.trace()
    assert trace.provenance is Provenance.OBSERVED
    assert set(trace.buffers) == {x.id}
    assert run.codes() == ["SL101"]


def test_one_stream_that_is_not_the_owner_is_enough(tmp_path: Path) -> None:
    run = Run(tmp_path)
    x = run.block(0x1000, owner=DEFAULT)
    run.work(SIDE, (x, Mode.READ))
    assert set(run.trace().buffers) == {x.id}


def test_what_was_uploaded_once_and_is_used_by_one_stream_is_left_out(tmp_path: Path) -> None:
    """``model.to("cuda")``: the parameters are the current stream's from then on."""
    run = Run(tmp_path)
    weight, page = run.block(0), run.recorder.born(4096, 64, Space.PINNED, "cpu")
    ends = Touch(page, Mode.READ, 0, 64), Touch(weight, Mode.WRITE, 0, 64)
    run.recorder.move(run.stream(DEFAULT), "copy", *ends, HostEffect.ASYNC)
    run.work(DEFAULT, (weight, Mode.READ))
    assert [launch.accesses for launch in launches(run.trace())] == []
    run = Run(tmp_path)
    weight, page = run.block(0), run.recorder.born(4096, 64, Space.PINNED, "cpu")
    ends = Touch(page, Mode.READ, 0, 64), Touch(weight, Mode.WRITE, 0, 64)
    run.recorder.move(run.stream(SIDE), "copy", *ends, HostEffect.ASYNC)
    run.work(DEFAULT, (weight, Mode.READ))
    assert "SL101" in run.codes()


def test_work_in_a_row_becomes_one_bare_launch(tmp_path: Path) -> None:
    run = Run(tmp_path, kind=StreamKind.BLOCKING)
    x, private = run.block(0x1000, owner=None), run.block(0x2000)
    run.work(SIDE, (x, Mode.WRITE))
    for _ in range(3):
        run.work(DEFAULT, (private, Mode.WRITE))
    run.work(OTHER, (x, Mode.READ))
    assert [len(op.accesses) for op in launches(run.trace())] == [1, 0, 1]
    # The default stream is a barrier between the blocking streams.
    assert run.codes() == []


def test_an_event_orders(tmp_path: Path) -> None:
    run = Run(tmp_path)
    x = run.block(0x1000)
    run.work(SIDE, (x, Mode.WRITE))
    run.record(7, SIDE)
    run.wait(DEFAULT, 7)
    run.work(DEFAULT, (x, Mode.READ))
    assert run.codes() == []


def test_a_new_block_at_an_old_address_is_another(tmp_path: Path) -> None:
    run = Run(tmp_path)
    x = run.block(0x1000)
    run.work(DEFAULT, (x, Mode.WRITE))
    run.recorder.died(0x1000, FreeKind.DROPPED)
    y = run.block(0x1000, owner=SIDE)
    run.work(SIDE, (y, Mode.WRITE))
    assert x.id != y.id
    assert run.traces() == []


# ----------------------------------------------------------------------------- lifetimes


def freed_early(run: Run, *, kept: bool = False, reused: int = 0x1000) -> None:
    x = run.block(0x1000)
    run.work(DEFAULT, (x, Mode.WRITE))
    run.record(7, DEFAULT)
    run.wait(SIDE, 7)
    run.work(SIDE, (x, Mode.READ))
    if kept:
        run.recorder.keep(x, run.stream(SIDE))
    run.recorder.died(0x1000, FreeKind.DROPPED)
    run.work(DEFAULT, (run.block(reused), Mode.WRITE))


def test_memory_that_was_handed_out_again_too_early(tmp_path: Path) -> None:
    run = Run(tmp_path)
    freed_early(run)
    assert [type(op) for op in run.trace().ops if isinstance(op, (Alloc, Free))] == [Alloc, Free, Alloc]
    assert run.codes() == ["SL401"]


def test_memory_that_record_stream_kept_back(tmp_path: Path) -> None:
    run = Run(tmp_path)
    freed_early(run, kept=True)
    assert run.codes() == []


def test_a_drop_whose_memory_was_not_handed_out_again(tmp_path: Path) -> None:
    run = Run(tmp_path)
    freed_early(run, reused=0x8000)
    assert not any(isinstance(op, Free) for op in run.trace().ops)
    assert run.codes() == []


def test_a_part_of_the_memory_is_enough(tmp_path: Path) -> None:
    run = Run(tmp_path)
    freed_early(run, reused=0x1020)
    assert run.codes() == ["SL401"]


@pytest.mark.parametrize(("waits", "found"), [(False, ["SL403"]), (True, [])])
def test_memory_whose_last_user_was_its_own_stream(tmp_path: Path, waits: bool, found: list[str]) -> None:
    """``(x * 2).sum(); out = torch.empty(n)``, which another stream fills."""
    run = Run(tmp_path)
    product = run.block(0x1000)
    run.work(DEFAULT, (product, Mode.WRITE))
    run.recorder.died(0x1000, FreeKind.DROPPED)
    out = run.block(0x1000)
    if waits:
        run.record(7, DEFAULT)
        run.wait(SIDE, 7)
    run.work(SIDE, (out, Mode.WRITE))
    assert run.codes() == found


@pytest.mark.parametrize(("waits", "found"), [(False, ["SL403"]), (True, [])])
def test_memory_that_another_stream_had_filled_before(tmp_path: Path, waits: bool, found: list[str]) -> None:
    """``batch = torch.empty(n)``, filled aside and doubled here, with each request."""
    run = Run(tmp_path)
    for _ in range(2):
        batch = run.block(0x1000)
        if waits:
            run.record(7, DEFAULT)
            run.wait(SIDE, 7)
        run.work(SIDE, (batch, Mode.WRITE))
        run.record(8, SIDE)
        run.wait(DEFAULT, 8)
        run.work(DEFAULT, (batch, Mode.READ))
        run.recorder.died(0x1000, FreeKind.DROPPED)
    assert run.codes() == found


def test_a_use_that_the_drop_did_not_wait_for_is_told_once(tmp_path: Path) -> None:
    """A third stream fills what a second one still reads: the drop was too early, not the allocation."""
    run = Run(tmp_path)
    freed_early(run, reused=0x8000)
    out = run.block(0x1000)
    run.record(9, DEFAULT)
    run.wait(OTHER, 9)
    run.work(OTHER, (out, Mode.WRITE))
    assert run.codes() == ["SL401"]


@pytest.mark.parametrize(("library", "found"), [("", ["SL401"]), ("PyTorch", [])])
def test_a_page_of_a_pool_that_knows_its_own_copies(tmp_path: Path, library: str, found: list[str]) -> None:
    """``cudaMemcpyAsync(target, torch.full((n,), 7.0, pin_memory=True).data_ptr(), ...)``."""
    run = Run(tmp_path)
    x = run.block(0x9000)
    for _ in range(2):
        page = run.recorder.born(0x1000, 64, Space.PINNED, "cpu")
        page.pool, page.pool_awaits = "the pool", "PyTorch"
        ends = Touch(page, Mode.READ, 0, 64), Touch(x, Mode.WRITE, 0, 64)
        run.recorder.move(run.stream(SIDE), "copy", *ends, HostEffect.ASYNC, library)
        run.recorder.died(0x1000, FreeKind.DROPPED)
    assert run.codes() == found


# ----------------------------------------------------------------------------- the host


def test_the_host_reads_an_unfinished_copy(tmp_path: Path) -> None:
    run = Run(tmp_path)
    x, host = run.block(0x1000), run.recorder.unseen(0x9000, 64, Space.PINNED, "cpu")
    source, target = Touch(x, Mode.READ, 0, 64), Touch(host, Mode.WRITE, 0, 64)
    run.recorder.move(run.stream(DEFAULT), "copy", source, target, HostEffect.ASYNC)
    run.recorder.host("read", [Touch(host, Mode.READ, 0, 4)])
    assert any(isinstance(op, Copy) for op in run.trace().ops)
    assert any(isinstance(op, HostAccess) for op in run.trace().ops)
    assert set(run.codes()) == {"SL201"}


def test_a_copy_of_another_part_is_no_matter(tmp_path: Path) -> None:
    run = Run(tmp_path)
    x, host = run.block(0x1000), run.recorder.unseen(0x9000, 64, Space.PINNED, "cpu")
    source, target = Touch(x, Mode.READ, 0, 32), Touch(host, Mode.WRITE, 0, 32)
    run.recorder.move(run.stream(DEFAULT), "copy", source, target, HostEffect.ASYNC)
    run.recorder.host("read", [Touch(host, Mode.READ, 32, 36)])
    assert run.codes() == []


# ----------------------------------------------------------------------------- windows


def test_an_event_recorded_before_the_window_is_held_there(tmp_path: Path) -> None:
    run = Run(tmp_path, half=4)
    x = run.block(0x1000)
    run.record(7, SIDE)
    for _ in range(20):
        run.work(DEFAULT, (x, Mode.WRITE))
    run.wait(DEFAULT, 7)
    run.recorder.turn()
    last = run.windows[-1]
    trace = trace_of(last, Sources(tmp_path))
    assert trace is not None
    wait = next(i for i, op in enumerate(trace.ops) if type(op).__name__ == "Wait")
    assert HappensBefore(trace).record_seen_by(OpId(wait)) is not None


def test_memory_stays_bounded(tmp_path: Path) -> None:
    run = Run(tmp_path, half=50)
    x = run.block(0x1000)
    for number in range(1000):
        event = run.recorder.bind_event(number % 3, "0", None)
        run.recorder.record(event, run.stream(SIDE))
        run.work(DEFAULT, (x, Mode.WRITE))
        run.recorder.forget_event(number % 3)
    assert max(sum(len(half.entries) for half in window.halves) for window in run.windows) <= 102
    assert len(run.windows[-1].events) < 110
    assert len(run.windows[-1].halves[0].before) <= 3


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("work"),
            st.sampled_from([DEFAULT, SIDE, OTHER]),
            st.integers(0, 3),
            st.sampled_from([Mode.READ, Mode.WRITE, Mode.UPDATE]),
        ),
        st.tuples(st.just("record"), st.integers(1, 3), st.sampled_from([DEFAULT, SIDE, OTHER])),
        st.tuples(st.just("wait"), st.sampled_from([DEFAULT, SIDE, OTHER]), st.integers(1, 3)),
        st.tuples(st.just("sync"), st.sampled_from([DEFAULT, SIDE, OTHER])),
        st.tuples(st.just("renew"), st.integers(0, 3)),
    ),
    max_size=40,
)


def play(run: Run, program: list[tuple[object, ...]]) -> None:
    blocks = [run.block(0x1000 * (1 + number), owner=None) for number in range(4)]
    run.recorder.forget()
    for step in program:
        match step:
            case ("work", int() as handle, int() as number, Mode() as mode):
                run.work(handle, (blocks[number], mode))
            case ("record", int() as event, int() as handle):
                run.record(event, handle)
            case ("wait", int() as handle, int() as event):
                run.wait(handle, event)
            case ("renew", int() as number):
                run.recorder.died(blocks[number].start, FreeKind.DROPPED)
                blocks[number] = run.block(blocks[number].start)
            case ("sync", int() as handle):
                run.recorder.sync_stream(run.stream(handle))


def unordered(trace: Trace) -> set[tuple[int, int, BufferId]]:
    """Conflicts by the lines of the two operations."""
    hb = HappensBefore(trace)
    return {
        (trace.ops[c.earlier].at.span.line, trace.ops[c.later].at.span.line, c.buffer)
        for c in conflicts(trace, hb)
    }


@given(steps, st.sampled_from([StreamKind.BLOCKING, StreamKind.NON_BLOCKING]))
def test_what_is_left_out_changes_no_conflict(program: list[tuple[object, ...]], kind: StreamKind) -> None:
    run = Run(Path(), kind=kind)
    play(run, program)
    reduced = [unordered(trace) for trace in run.traces()]
    everything = Run(Path(), kind=kind)
    play(everything, program)
    for block in list(everything.recorder.blocks.values()):
        # A touch by the host keeps the block in the trace, after all else.
        everything.recorder.host("end", [Touch(block, Mode.READ, 0, 0)])
    full = everything.traces()
    found = set().union(*(unordered(trace) for trace in full))
    ends = {op.at.span.line for trace in full for op in trace.ops if isinstance(op, HostAccess)}
    assert set().union(*reduced) == {pair for pair in found if pair[1] not in ends}


@given(steps, st.integers(3, 12))
def test_windows_neither_invent_nor_lose_what_is_near(program: list[tuple[object, ...]], half: int) -> None:
    whole = Run(Path())
    play(whole, program)
    cut = Run(Path(), half=half)
    play(cut, program)
    found = set().union(*(unordered(trace) for trace in cut.traces()))
    expected: set[tuple[int, int, BufferId]] = set()
    for full in whole.traces():
        expected = unordered(full)
        lines = {op.at.span.line: OpId(number) for number, op in enumerate(full.ops)}
        hb = HappensBefore(full)
        for earlier, later, _ in found:
            assert hb.ordered(lines[earlier], lines[later]).verdict is not Verdict.YES
    near = {(later, buffer) for earlier, later, buffer in expected if later - earlier < half}
    assert near <= {(later, buffer) for _, later, buffer in found}


# ----------------------------------------------------------------------------- regions


def block_of(size: int) -> Block:
    return Block(BufferId(1), 0, size, Space.DEVICE, "0", None, None)


def test_a_dense_view_of_everything_is_the_whole_block() -> None:
    assert region(Touch(block_of(64), Mode.READ, 0, 64)) == ()
    assert region(Touch(block_of(64), Mode.READ, 0, 32)) != ()


VIEWS = {
    "x[:, :2]": ((4, 2), (4, 1), 0),
    "x[:, 2:]": ((4, 2), (4, 1), 8),
    "x[:, 1:]": ((4, 3), (4, 1), 4),
    "x[:2]": ((2, 4), (4, 1), 0),
    "x[2:]": ((2, 4), (4, 1), 32),
    "x[0]": ((4,), (1,), 0),
    "x[:, 0]": ((4,), (4,), 0),
    "x.flatten()[::2]": ((8,), (2,), 0),
    "x.flatten()[1::2]": ((8,), (2,), 4),
    "x.flatten()[::3]": ((5,), (3,), 0),
}
"""Shape, strides and offset in bytes of views of a 4 by 4 matrix of 4-byte elements."""


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [
        ("x[:, :2]", "x[:, 2:]", Overlap.NO),
        ("x[:, :2]", "x[:, 1:]", Overlap.YES),
        ("x.flatten()[::2]", "x.flatten()[1::2]", Overlap.NO),
        ("x[:2]", "x[2:]", Overlap.NO),
        ("x[0]", "x[:, 0]", Overlap.YES),
        ("x[:, 0]", "x.flatten()[::3]", Overlap.MAYBE),
    ],
)
def test_views_overlap_where_their_bytes_may(one: str, other: str, answer: Overlap) -> None:
    assert overlap(of_view(*VIEWS[one]), of_view(*VIEWS[other])) is answer


def of_view(shape: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Region:
    span, strides = layout(shape, stride, 4, offset)
    return region(Touch(block_of(64), Mode.READ, offset, offset + span, strides))


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(0, 3),
    st.permutations(range(3)),
    st.lists(st.integers(1, 3), min_size=3, max_size=3),
)
def test_the_bytes_of_a_view_lie_in_its_columns(
    shape: list[int], offset: int, order: list[int], gaps: list[int]
) -> None:
    item = 2
    step, strides = 1, [0] * len(shape)
    for axis in (axis for axis in order if axis < len(shape)):
        strides[axis] = step * gaps[axis]
        step = strides[axis] * shape[axis]
    span, columns = layout(tuple(shape), tuple(strides), item, offset * item)
    places = [0]
    for count, stride in zip(shape, strides, strict=True):
        places = [place + i * stride for place in places for i in range(count)]
    first = offset * item
    covered = {first + place * item + byte for place in places for byte in range(item)}
    assert max(covered) - min(covered) + 1 == span
    if columns is None:
        assert len(covered) == span
    else:
        assert all(
            columns.column <= byte % columns.pitch < columns.column + columns.width for byte in covered
        )


def test_strides_say_what_a_view_skips() -> None:
    assert layout((4, 2), (4, 1), 4, 8) == (56, Strides(16, 8, 8))
    assert layout((3, 4), (4, 1), 4, 0) == (48, None)
    assert layout((4, 3), (1, 4), 4, 0) == (48, None)  # transposed: as dense
    assert layout((5, 3), (0, 1), 4, 0) == (12, None)  # expanded


def test_the_events_of_a_window_are_what_they_were(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.block(0x1000)
    run.recorder.died(0x1000)
    run.recorder.turn()
    assert [born for half in run.windows[0].halves for _, _, born in half.lives] == [True, False]


# ----------------------------------------------------------------------------- what others may order


def race(run: Run) -> None:
    x = run.block(0x1000)
    run.work(DEFAULT, (x, Mode.WRITE))
    run.work(SIDE, (x, Mode.READ))


def confidences(run: Run) -> set[Confidence]:
    return {item.finding.confidence for trace in run.traces() for item in findings_of_recording(trace)}


def test_a_stream_that_other_code_made_may_be_ordered_by_it(tmp_path: Path) -> None:
    run = Run(tmp_path)
    race(run)
    assert confidences(run) == {Confidence.POSSIBLE}


def test_a_stream_is_the_same_one_whatever_device_is_current(tmp_path: Path) -> None:
    """``for device in devices: lanes[device].synchronize()``, without selecting the devices."""
    run = Run(tmp_path)
    recorder = run.recorder
    recorder.made_stream(SIDE, "1", StreamKind.NON_BLOCKING)
    lane = recorder.stream(SIDE, "1")
    block = recorder.born(1000, 64, Space.DEVICE, "1", recorder.stream(DEFAULT, "1"))
    recorder.work(lane, "fill", [Touch(block, Mode.WRITE, 0, 64)])
    recorder.sync_stream(recorder.stream(SIDE, "0"))
    recorder.work(recorder.stream(DEFAULT, "1"), "sum", [Touch(block, Mode.READ, 0, 64)])
    assert run.codes() == []
    assert recorder.stream(DEFAULT, "0") != recorder.stream(DEFAULT, "1")


def test_a_stream_that_was_seen_to_be_made_is_not(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.recorder.pool_stream(SIDE, "0", StreamKind.NON_BLOCKING)
    race(run)
    assert confidences(run) == {Confidence.CERTAIN}


def test_a_library_that_is_not_traced_may_order_everything(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.recorder.pool_stream(SIDE, "0", StreamKind.NON_BLOCKING)
    race(run)
    run.recorder.turn()
    run.over = True
    run.windows[0].escapes = True
    assert confidences(run) == {Confidence.POSSIBLE}
