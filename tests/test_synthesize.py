"""Synthesized reproducers: what they hold, and what they do on a simulated GPU."""

from __future__ import annotations

import contextlib
import io
import re
import stat
import sys
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlint import confirm
from streamlint.confirm.gpu.driver import Driver, DriverUnavailableError
from streamlint.confirm.reproduce import synthetic
from streamlint.confirm.reproduce.slicing import Harm, NothingToReplayError, slice_of
from streamlint.confirm.reproduce.synthesize import program
from streamlint.finding import Confidence, Finding, Occurrence, Severity, leading
from streamlint.order.conflicts import conflicts
from streamlint.order.hb import HappensBefore, Verdict
from streamlint.run.engine import Settings, analyze
from streamlint.trace import (
    BufferId,
    OpId,
    Record,
    Space,
    StreamKind,
    SyncEvent,
    SyncStream,
    Trace,
    Wait,
)
from tests.expectations import FIXTURES
from tests.random_traces import traces
from tests.simulated_bindings import bindings
from tests.simulated_cuda import Machine
from tests.traces import Program, place

if TYPE_CHECKING:
    from pathlib import Path

FILES = (
    "torch/sl101_unordered_read.py",
    "torch/sl103_wait_before_record.py",
    "torch/sl401_missing_record_stream.py",
    "cuda_runtime/sl101_unordered_read.py",
    "cuda_runtime/sl102_unordered_write.py",
    "cuda_runtime/sl201_host_read_before_sync.py",
    "cuda_runtime/sl202_host_write_during_copy.py",
    "cuda_runtime/sl402_freed_while_in_use.py",
)


@cache
def findings_of(name: str) -> tuple[Finding, ...]:
    """What is shown by default: below that, a wait may leave nothing open that could be replayed."""
    found = leading(analyze(FIXTURES, [FIXTURES / name], Settings()).findings)
    return tuple(
        f for f in found if f.severity is not Severity.ADVICE and f.confidence is not Confidence.POSSIBLE
    )


def text_of(finding: Finding) -> str:
    return program(finding, slice_of(finding), lambda span: f"statement {span.line}")


def run_function(text: str) -> str:
    return text[text.index("def run(ordered)") : text.index("\n\nTARGETS")].strip()


def simulate(text: str) -> tuple[int, int]:
    """The values with the missing edge and without it."""
    modules = bindings(Machine())
    saved = {name: sys.modules.get(name) for name in modules}
    out = io.StringIO()
    try:
        sys.modules.update(modules)
        with contextlib.redirect_stdout(out):
            quick = text.replace("HOLD_MS = 200", "HOLD_MS = 8")
            exec(compile(quick, "reproducer.py", "exec"), {"__name__": "__main__"})  # noqa: S102
    finally:
        for name, module in saved.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module
    right, racing = re.findall(r"edge: (.*)\n|it: +(.*)\n", out.getvalue())
    assert "another block" not in out.getvalue()
    return int(right[0]), int(racing[1])


def finding(trace: Trace, earlier: int, later: int, buffer: int | None = 0) -> Finding:
    evidence = Occurrence(trace, OpId(earlier), OpId(later), None if buffer is None else BufferId(buffer))
    sure, error = Confidence.CERTAIN, Severity.ERROR
    span = place(later + 1)
    return Finding("SL101", "name", "message", "help", sure, error, span, "", "f", (), "0123456789", evidence)


# Findings of real programs


@pytest.mark.parametrize("name", FILES)
def test_a_reproducer_goes_wrong_without_the_edge_and_not_with_it(name: str) -> None:
    assert findings_of(name)
    for finding in findings_of(name):
        right, racing = simulate(text_of(finding))
        # A copy into pageable memory is seen to block, which is promised nowhere: the replay blocks, too.
        seen_to_block = finding.confidence is Confidence.POSSIBLE and "pageable" in finding.function
        assert (right == racing) == seen_to_block, finding.function


@pytest.mark.parametrize("name", FILES)
def test_every_operation_of_the_slice_is_in_the_program(name: str) -> None:
    assert findings_of(name)
    for finding in findings_of(name):
        piece, text = slice_of(finding), text_of(finding)
        body = run_function(text)
        assert {piece.earlier, piece.later} <= set(piece.ops)
        for number in piece.ops:
            span = piece.op(number).at.span
            assert f"# {span.path}:{span.line}: statement {span.line}\n" in body
        counts = {
            Record: body.count("cudaEventRecord(") - body.count("cudaEventRecord(edge"),
            Wait: body.count("cudaStreamWaitEvent(") - body.count(", edge, 0)"),
            SyncEvent: body.count("cudaEventSynchronize(") - body.count("cudaEventSynchronize(edge"),
            SyncStream: body.count("cudaStreamSynchronize("),
        }
        for kind, count in counts.items():
            assert count == sum(isinstance(piece.op(number), kind) for number in piece.ops), kind
        assert body.count("hold(") == 1
        assert body.count("    if ordered:\n") == 2, "the record and the wait of the missing edge"


def test_the_text_is_the_same_each_time() -> None:
    name = "torch/sl103_wait_before_record.py"
    once = [text_of(finding) for finding in findings_of(name)]
    findings_of.cache_clear()
    assert once == [text_of(finding) for finding in findings_of(name)]


def test_a_stream_reads_too_early() -> None:
    path = "torch/sl101_unordered_read.py"
    (join,) = (f for f in findings_of(path) if f.function == "join_bad")
    assert (
        run_function(text_of(join))
        == f"""\
def run(ordered):
    side = check(runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking))  # non-blocking stream
    current_stream = runtime.cudaStream_t(0)  # stream current at entry: the default stream here
    edge = check(runtime.cudaEventCreate())
    x = filled(check(runtime.cudaMalloc(SIZE)), 1)  # device memory
    seen = filled(check(runtime.cudaMalloc(SIZE)), 0)  # what a kernel reads is copied to it
    check(runtime.cudaDeviceSynchronize())

    # {path}:17: statement 17
    hold(side)  # the earlier operation starts late
    check(runtime.cudaMemsetAsync(x, 7, SIZE, side))
    if ordered:
        check(runtime.cudaEventRecord(edge, side))

    # {path}:18: statement 18
    if ordered:
        check(runtime.cudaStreamWaitEvent(current_stream, edge, 0))
    check(runtime.cudaMemcpyAsync(seen, x, SIZE, ANY, current_stream))

    let_go()
    return final(seen)"""
    )


def test_the_host_overwrites_too_early() -> None:
    p = Program()
    stream, host, x = p.stream(), p.buffer(Space.PINNED), p.buffer()
    copy = p.copy(stream, host, x)
    write = p.host(writes=host)
    assert (
        run_function(text_of(finding(p.trace(), copy, write)))
        == """\
def run(ordered):
    s0 = check(runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking))  # non-blocking stream
    edge = check(runtime.cudaEventCreate())
    b0 = filled(check(runtime.cudaMallocHost(SIZE)), 1)  # pinned host memory
    b1 = filled(check(runtime.cudaMalloc(SIZE)), 0)  # device memory
    check(runtime.cudaDeviceSynchronize())

    # example.py:1: statement 1
    hold(s0)  # the earlier operation starts late
    check(runtime.cudaMemcpyAsync(b1, b0, SIZE, ANY, s0))
    if ordered:
        check(runtime.cudaEventRecord(edge, s0))

    # example.py:2: statement 2
    if ordered:
        check(runtime.cudaEventSynchronize(edge))
    ctypes.memset(b0, 9, SIZE)

    let_go()
    return final(b1)"""
    )


# Slices


def test_what_was_complete_before_is_left_out_but_for_events_still_waited_for() -> None:
    p = Program()
    a, b, x, early, late = p.stream(), p.stream(), p.buffer(), p.event(), p.event()
    p.launch(a, writes=x)
    too_early = p.record(a, early)
    p.record(a, late)
    p.sync_device()
    write = p.launch(a, writes=x)
    p.launch(a, writes=p.buffer())
    wait = p.wait(b, early)
    read = p.launch(b, reads=x)
    piece = slice_of(finding(p.trace(), write, read))
    assert piece.ops == (too_early, write, wait, read)
    assert piece.harm is Harm.READ_AFTER_WRITE


def test_streams_that_are_waited_for_take_part() -> None:
    p = Program()
    a, between, b, x = p.stream(), p.stream(), p.stream(), p.buffer()
    e, f = p.event(), p.event()
    second = p.record(between, f)
    write = p.launch(a, writes=x)
    first = p.record(a, e)
    middle = p.wait(between, e)
    wait = p.wait(b, f)
    read = p.launch(b, reads=x)
    assert slice_of(finding(p.trace(), write, read)).ops == (second, write, first, middle, wait, read)


def test_a_wait_that_orders_nothing_stands_for_the_pair_it_leaves_open() -> None:
    p = Program()
    a, b, x = p.stream(), p.stream(), p.buffer()
    write = p.launch(a, writes=x)
    wait = p.wait(b, p.event())
    read = p.launch(b, reads=x)
    piece = slice_of(finding(p.trace(), wait, wait, None))
    assert (piece.earlier, piece.later, piece.ops) == (write, read, (write, wait, read))


def test_the_current_stream_is_another_one_where_the_default_could_not_race() -> None:
    p = Program()
    current, blocking, x = p.stream(StreamKind.CURRENT), p.stream(StreamKind.BLOCKING), p.buffer()
    write = p.launch(current, writes=x)
    read = p.launch(blocking, reads=x)
    assert simulate(text_of(finding(p.trace(), write, read))) == (7, 1)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cuda_runtime/sl105_wrong_device_synchronize.py", "needs two GPUs"),
        ("cuda_runtime/sl301_cuda_call_in_host_callback.py", "no two uses of one memory"),
        ("cuda_runtime/sl403_used_before_allocated.py", "no two uses of one memory"),
        ("cuda_runtime/sl404_used_after_destroy.py", "no two uses of one memory|event that was destroyed"),
        ("torch/sl502_unjoined_capture.py", "no two uses of one memory"),
    ],
)
def test_what_cannot_be_replayed_says_why(name: str, reason: str) -> None:
    found = findings_of(name)
    assert found
    for each in found:
        with pytest.raises(NothingToReplayError, match=reason):
            slice_of(each)


@settings(max_examples=50, deadline=None)
@given(traces(most=20))
def test_every_conflict_gives_a_program_or_a_reason(trace: Trace) -> None:
    order = HappensBefore(trace)
    for conflict in islice(conflicts(trace, order), 4):
        about = finding(trace, conflict.earlier, conflict.later, conflict.buffer)
        try:
            piece = slice_of(about)
        except NothingToReplayError:
            continue
        assert list(piece.ops) == sorted(set(piece.ops))
        compile(text_of(about), "reproducer.py", "exec")


@st.composite
def stream_programs(draw: st.DrawFn) -> Trace:
    """Device work on streams of known kinds, with events and host synchronizations."""
    p = Program()
    kinds = (StreamKind.LEGACY, StreamKind.BLOCKING, StreamKind.NON_BLOCKING)
    streams = [p.stream(draw(st.sampled_from(kinds))) for _ in range(3)]
    events, buffers = [p.event() for _ in range(2)], [p.buffer() for _ in range(2)]
    words = "write write read read record wait sync_event sync_stream".split()
    for word in draw(st.lists(st.sampled_from(words), min_size=2, max_size=10)):
        stream, event = draw(st.sampled_from(streams)), draw(st.sampled_from(events))
        buffer = draw(st.sampled_from(buffers))
        match word:
            case "write":
                p.launch(stream, writes=buffer)
            case "read":
                p.launch(stream, reads=buffer)
            case "record":
                p.record(stream, event)
            case "wait":
                p.wait(stream, event)
            case "sync_event":
                p.sync_event(event)
            case _:
                p.sync_stream(stream)
    return p.trace()


@settings(max_examples=40, deadline=None)
@given(stream_programs())
def test_every_surely_unordered_pair_goes_wrong_on_the_simulated_gpu(trace: Trace) -> None:
    """The laws of the analysis and those of the simulated driver agree, and slices keep what matters."""
    for conflict in conflicts(trace, HappensBefore(trace)):
        if conflict.ordering.verdict is Verdict.NO:
            right, racing = simulate(
                text_of(finding(trace, conflict.earlier, conflict.later, conflict.buffer))
            )
            assert right != racing


# The command

SOURCE = """\
import torch


def races():
    side = torch.cuda.Stream()
    x = torch.zeros(4, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(7.0)
    return x.sum().item()


def also():
    return races()
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    path = tmp_path / "source.py"
    path.write_text(SOURCE, "utf-8")
    return path


def without_gpu() -> None:
    raise DriverUnavailableError("no CUDA driver (libcuda.so.1) on this machine")


def test_without_a_gpu_the_files_are_written(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthetic, "Driver", without_gpu)
    folder = source.parent / "out" / "put"
    assert confirm.main([f"{source}::races", "--synthesize", str(folder)]) == 2
    (written,) = folder.iterdir()
    assert re.fullmatch(r"sl101_races_[0-9a-f]{8}\.py", written.name)
    text = written.read_text("utf-8")
    assert "# source.py:9: x.fill_(7.0)\n" in text
    told = "`x` is read on the current stream while `side` may still be writing it (and 1 more access)"
    assert f"{told} (certain)" in text
    said = capsys.readouterr()
    assert "source.py:10: SL101 in races: SYNTHETIC\n" in said.out
    assert "needs an NVIDIA GPU" in said.err


def test_only_the_function_asked_for(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "Driver", without_gpu)
    folder = source.parent / "out"
    confirm.main([f"{source}::also", "--synthesize", str(folder)])
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "outcome", "status"),
    [
        (
            "print('with the missing edge: 7\\nwithout it:            1\\n')",
            "7 with the missing edge, 1 without",
            0,
        ),
        (
            "print('with the missing edge: 7\\nwithout it:            7\\n')",
            "7 with the missing edge, 7 without",
            0,
        ),
        ("raise RuntimeError('CUDA error 2')", "it failed: RuntimeError: CUDA error 2", 2),
        ("import time; time.sleep(60)", "it did not end within 2 s", 2),
    ],
)
def test_a_replay_never_counts_as_confirmed(
    source: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    outcome: str,
    status: int,
) -> None:
    monkeypatch.setattr(synthetic, "Driver", lambda: None)
    python = source.parent / "python"
    python.write_text(f"#!{sys.executable}\n{script}\n", "utf-8")
    python.chmod(python.stat().st_mode | stat.S_IEXEC)
    options = ["--synthesize", str(source.parent / "out"), "--python", str(python), "--timeout", "2"]
    assert confirm.main([str(source), *options]) == status
    said = capsys.readouterr().out
    assert f"{outcome}" in said
    assert synthetic.SYNTHETIC in said
    assert "confirm nothing" in said


def test_a_folder_that_cannot_be_made(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert confirm.main([str(source), "--synthesize", str(source)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.gpu
@pytest.mark.parametrize("name", FILES)
def test_on_a_gpu(name: str, tmp_path: Path) -> None:
    try:
        Driver()
    except DriverUnavailableError as error:
        pytest.skip(str(error))
    pytest.importorskip("cuda.bindings.runtime")
    for written in synthetic.write_all(findings_of(name), FIXTURES, tmp_path):
        done = synthetic.run(written, sys.executable, timeout_s=60)
        assert done.values is not None, done.note
        seen_to_block = done.finding.confidence is Confidence.POSSIBLE and "pageable" in done.finding.function
        assert (done.values[0] == done.values[1]) == seen_to_block, done.finding.function


# Names


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("the current stream", "self.side"), ("current_stream", "self_side")),
        (("streams[0]", "streams[0]"), ("streams_0", "streams_0_2")),
        (("edge", "lambda"), ("edge_2", "lambda_2")),
        (("7", "()"), ("_7", "x")),
    ],
)
def test_names_are_the_users_own(names: tuple[str, str], expected: tuple[str, str]) -> None:
    p = Program()
    a, b, x = p.stream(), p.stream(), p.buffer()
    write, read = p.launch(a, writes=x), p.launch(b, reads=x)
    trace = p.trace()
    streams = {s: replace(trace.streams[s], name=name) for s, name in zip((a, b), names, strict=True)}
    body = run_function(text_of(finding(replace(trace, streams=streams), write, read)))
    assert (
        tuple(re.findall(r"^    (\w+) = check\(runtime.cudaStreamCreateWith", body, re.MULTILINE)) == expected
    )


def test_the_users_text_cannot_break_out_of_the_docstring() -> None:
    p = Program()
    a, b, x = p.stream(), p.stream(), p.buffer()
    write, read = p.launch(a, writes=x), p.launch(b, reads=x)
    about = replace(finding(p.trace(), write, read), message='x\\"""; raise SystemExit', help="\\")
    compile(text_of(about), "reproducer.py", "exec")
    assert simulate(text_of(about)) == (7, 1)
