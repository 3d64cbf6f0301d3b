"""From what a tracer saw to a trace: what is left out changes nothing, windows neither lose nor invent."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from streamlint.confirm.observe.events import (
    Touch,
)
from streamlint.confirm.observe.sites import Sources
from streamlint.confirm.observe.translate import trace_of
from streamlint.finding import Confidence
from streamlint.judging.judge import findings_of_recording
from streamlint.order.conflicts import conflicts
from streamlint.order.hb import HappensBefore, Verdict
from streamlint.trace import (
    BufferId,
    Copy,
    FreeKind,
    HostAccess,
    HostEffect,
    Launch,
    Mode,
    OpId,
    Provenance,
    Space,
    StreamKind,
    Trace,
)
from tests.observed_run import DEFAULT, OTHER, SIDE, Run


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


def test_an_event_of_a_library_is_not_to_be_recorded_later(tmp_path: Path) -> None:
    """A process group records its own events: the program can only wait for another collective."""
    run = Run(tmp_path)
    run.recorder.pool_stream(SIDE, "0", run.kind)
    x = run.block(0x1000)
    run.record(7, SIDE)
    run.work(SIDE, (x, Mode.WRITE))
    run.wait(DEFAULT, 7)
    run.work(DEFAULT, (x, Mode.READ))
    found = [item.finding for trace in run.traces() for item in findings_of_recording(trace)]
    assert [finding.help[:5] for finding in found if finding.help] == ["make "]


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
