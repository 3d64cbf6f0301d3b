"""Rules about collectives, device memory on the host, allocations, destroyed handles, timing, and advice."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from streamlint.judging.judge import judge
from streamlint.rules import sl203_host_access_to_device_memory as sl203
from streamlint.rules import sl403_used_before_allocated as sl403
from streamlint.rules import sl404_used_after_destroy as sl404
from streamlint.rules import sl602_collective_before_wait as sl602
from streamlint.rules import sl701_elapsed_before_sync as sl701
from streamlint.rules import sl901_pageable_async_copy as sl901
from streamlint.rules import sl902_implicit_sync_in_loop as sl902
from streamlint.rules import sl903_allocation_serializes as sl903
from streamlint.rules import sl904_default_stream_serializes as sl904
from streamlint.rules import sl905_redundant_sync as sl905
from streamlint.run import engine
from streamlint.trace import (
    Alloc,
    AllocKind,
    BufferId,
    Copy,
    CudaCall,
    DestroyStream,
    Doubt,
    EventId,
    Free,
    HostEffect,
    Launch,
    OpId,
    Origin,
    Purpose,
    Site,
    Space,
    StreamId,
    StreamKind,
    SyncDevice,
    SyncStream,
)
from tests.traces import Program, place

if TYPE_CHECKING:
    from pathlib import Path

    from streamlint.rules.base import Problem, Rule


class Job(Program):
    """Programs with the ops that these rules look at."""

    def site(self, line: int | None = None) -> Site:
        return Site(place(line if line is not None else len(self.ops) + 1))

    def problems(self, rule: Rule) -> list[Problem]:
        return list(rule.check(judge(self.trace())))

    def places(self, rule: Rule) -> list[OpId]:
        return [problem.later for problem in self.problems(rule)]

    def join(self, after: StreamId, before: StreamId) -> None:  # type: ignore[override]
        event = self.event()
        self.record(before, event)
        self.wait(after, event)

    def collective(self, on: StreamId, aside: StreamId, buffer: BufferId) -> EventId:
        """``work = all_reduce(buffer, async_op=True)``, called where ``on`` is current."""
        self.join(aside, on)
        work = self.event()
        start = self.launch(aside, writes=buffer)
        launched = self.ops[start]
        assert isinstance(launched, Launch)
        self.ops[start] = replace(launched, completes=work, name="all_reduce")
        self.record(aside, work)
        return work

    def stream_ordered(self, stream: StreamId) -> BufferId:
        made = self.buffer()
        self.add(Alloc(self.site(), buffer=made, stream=stream, kind=AllocKind.QUEUED))
        return made

    def destroy_stream(self, stream: StreamId) -> OpId:
        return self.add(DestroyStream(self.site(), stream=stream))

    def elapsed(self, start: EventId, end: EventId) -> OpId:
        return self.add(CudaCall(self.site(), name="elapsed_time", times=(start, end)))

    def named_copy(self, stream: StreamId, src: BufferId, dst: BufferId, host: HostEffect, name: str) -> OpId:
        number = self.copy(stream, src, dst, host)
        copied = self.ops[number]
        assert isinstance(copied, Copy)
        self.ops[number] = replace(copied, name=name)
        return number

    def device_wide_free(self, buffer: BufferId) -> OpId:
        """``cudaFree``: seen to wait for the device."""
        at = self.site()
        self.add(SyncDevice(at, doubts=frozenset({Doubt.OBSERVED}), device="cur", name="cudaFree"))
        return self.add(Free(at, buffer=buffer, name="cudaFree"))

    def item(self, stream: StreamId, buffer: BufferId, line: int) -> OpId:
        self.add(Launch(self.site(line), stream=stream, accesses=()))
        self.launch(stream, reads=buffer)
        self.ops[-1] = replace(self.ops[-1], at=self.site(line))
        return self.add(SyncStream(self.site(line), stream=stream, purpose=Purpose.VALUES))


# ----------------------------------------------------------------------------- SL203


@pytest.mark.parametrize("space", [Space.DEVICE, Space.PINNED, Space.MANAGED, Space.UNKNOWN])
def test_only_device_memory_is_out_of_the_hosts_reach(space: Space) -> None:
    p = Job()
    read = p.host(reads=p.buffer(space))
    assert p.places(sl203.RULE) == ([read] if space is Space.DEVICE else [])


def test_memory_whose_allocation_is_not_in_sight_may_be_anywhere() -> None:
    p = Job()
    x = p.buffer()
    p.buffers[x] = replace(p.buffers[x], origin=Origin.ARGUMENT)
    p.host(reads=x)
    assert not p.problems(sl203.RULE)


def test_one_block_is_reported_once_and_explains_its_races() -> None:
    p = Job()
    s, x = p.stream(), p.buffer()
    write = p.launch(s, writes=x)
    first = p.host(reads=x)
    p.host(reads=x)
    (problem,) = p.problems(sl203.RULE)
    assert problem.later == first
    assert (write, first) in problem.explains


# ----------------------------------------------------------------------------- SL602


def test_a_result_is_ready_after_the_wait() -> None:
    p = Job()
    cur, comm, x = p.stream(StreamKind.CURRENT), p.stream(), p.buffer()
    work = p.collective(cur, comm, x)
    early = p.launch(cur, reads=x)
    p.wait(cur, work)
    p.launch(cur, reads=x)
    assert p.places(sl602.RULE) == [early]


def test_a_wait_on_another_stream_orders_that_stream_only() -> None:
    p = Job()
    cur, side, comm, x = p.stream(StreamKind.CURRENT), p.stream(), p.stream(), p.buffer()
    work = p.collective(cur, comm, x)
    p.wait(side, work)
    p.launch(side, reads=x)
    late = p.launch(cur, reads=x)
    assert p.places(sl602.RULE) == [late]


def test_a_race_of_plain_streams_is_no_collective() -> None:
    p = Job()
    a, b, x = p.stream(), p.stream(), p.buffer()
    p.launch(a, writes=x)
    p.launch(b, reads=x)
    assert not p.problems(sl602.RULE)


def test_between_calls_from_outside_someone_may_wait() -> None:
    p = Job()
    cur, comm, x = p.stream(StreamKind.CURRENT), p.stream(), p.buffer()
    p.collective(cur, comm, x)
    read = p.launch(cur, reads=x)
    p.ops[read] = replace(p.ops[read], at=replace(p.ops[read].at, call=1))
    (problem,) = p.problems(sl602.RULE)
    assert Doubt.SOME_PATHS in problem.doubts


# ----------------------------------------------------------------------------- SL403, SL404


def test_a_use_needs_the_allocating_stream() -> None:
    p = Job()
    a, b = p.stream(), p.stream()
    x = p.stream_ordered(a)
    p.launch(a, writes=x)
    y = p.stream_ordered(a)
    use = p.launch(b, writes=y)
    assert p.places(sl403.RULE) == [use]


@pytest.mark.parametrize("how", ["event", "stream", "device", "later work"])
def test_what_covers_an_allocation(how: str) -> None:
    p = Job()
    a, b = p.stream(), p.stream()
    x = p.stream_ordered(a)
    match how:
        case "event":
            p.join(b, a)
        case "stream":
            p.sync_stream(a)
        case "device":
            p.sync_device()
        case _:
            p.launch(a)
            p.sync_stream(a)
    p.launch(b, writes=x)
    assert not p.problems(sl403.RULE)


def test_a_race_says_more_than_the_missing_allocation() -> None:
    p = Job()
    a, b = p.stream(), p.stream()
    x = p.stream_ordered(a)
    p.launch(a, writes=x)
    p.launch(b, reads=x)
    assert not p.problems(sl403.RULE)


def test_caching_allocators_allocate_at_once() -> None:
    p = Job()
    a, b, x = p.stream(), p.stream(), p.buffer()
    p.alloc(x, a)
    p.launch(b, writes=x)
    assert not p.problems(sl403.RULE)


def test_a_destroyed_stream_is_reported_once() -> None:
    p = Job()
    s = p.stream()
    p.launch(s)
    p.destroy_stream(s)
    use = p.launch(s)
    p.launch(s)
    assert p.places(sl404.RULE) == [use]


def test_a_destroyed_event_may_be_waited_for_no_more() -> None:
    p = Job()
    s, e = p.stream(), p.event()
    p.record(s, e)
    p.sync_event(e)
    p.destroy_event(e)
    assert not p.problems(sl404.RULE)
    wait = p.wait(s, e)
    assert p.places(sl404.RULE) == [wait]


def test_a_use_in_a_later_call_is_the_callers_mistake() -> None:
    p = Job()
    s = p.stream()
    p.destroy_stream(s)
    use = p.launch(s)
    p.ops[use] = replace(p.ops[use], at=replace(p.ops[use].at, call=1))
    assert not p.problems(sl404.RULE)


# ----------------------------------------------------------------------------- SL701


def timed(p: Job) -> tuple[StreamId, EventId, EventId]:
    s, start, end = p.stream(), p.event(), p.event()
    for event in (start, end):
        p.events[event] = replace(p.events[event], timing=True)
    p.record(s, start)
    p.launch(s)
    p.record(s, end)
    return s, start, end


def test_a_time_is_read_after_the_host_waited() -> None:
    p = Job()
    _, start, end = timed(p)
    early = p.elapsed(start, end)
    p.sync_event(end)
    p.elapsed(start, end)
    assert p.places(sl701.RULE) == [early]


def test_a_wait_for_the_start_does_not_cover_the_end() -> None:
    p = Job()
    _, start, end = timed(p)
    p.sync_event(start)
    p.elapsed(start, end)
    (problem,) = p.problems(sl701.RULE)
    assert "`e1`" in problem.message


def test_of_events_of_unknown_make_nothing_is_said() -> None:
    p = Job()
    _, start, end = timed(p)
    p.events[start] = replace(p.events[start], timing=None)
    p.events[end] = replace(p.events[end], timing=None)
    p.elapsed(start, end)
    assert not p.problems(sl701.RULE)


def test_events_without_timing_have_no_time() -> None:
    p = Job()
    s, start, end = timed(p)
    p.events[start] = replace(p.events[start], timing=False)
    p.sync_stream(s)
    p.elapsed(start, end)
    (problem,) = p.problems(sl701.RULE)
    assert "without timing" in problem.message


# ----------------------------------------------------------------------------- advice


@pytest.mark.parametrize(
    ("space", "host", "name", "found"),
    [
        (Space.PAGEABLE, HostEffect.STAGED, "copy_", True),
        (Space.PAGEABLE, HostEffect.BLOCKS, "copy_", False),
        (Space.PAGEABLE, HostEffect.STAGED, "cudaMemcpyAsync", True),
        (Space.PAGEABLE, HostEffect.STAGED, "cudaMemcpy", False),
        (Space.PINNED, HostEffect.ASYNC, "copy_", False),
        (Space.UNKNOWN, HostEffect.ASYNC, "copy_", False),
    ],
)
def test_copies_that_cannot_be_asynchronous(space: Space, host: HostEffect, name: str, found: bool) -> None:
    p = Job()
    p.named_copy(p.stream(), p.buffer(space), p.buffer(), host, name)
    assert bool(p.problems(sl901.RULE)) is found


def test_a_loop_that_reads_drains_its_stream() -> None:
    p = Job()
    s, x = p.stream(), p.buffer()
    p.launch(s, writes=x)
    p.item(s, x, line=100)
    assert not p.problems(sl902.RULE)
    p.launch(s, writes=x)
    again = p.item(s, x, line=100)
    assert p.places(sl902.RULE) == [again]


def test_a_free_that_waits_matters_between_asynchronous_work() -> None:
    p = Job()
    a, x, y = p.stream(), p.buffer(), p.buffer()
    p.launch(a, writes=x)
    free = p.device_wide_free(y)
    assert not p.problems(sl903.RULE)
    p.launch(a, writes=x)
    assert p.places(sl903.RULE) == [free]


def test_a_free_after_a_synchronization_waits_for_nothing() -> None:
    p = Job()
    a, x, y = p.stream(), p.buffer(), p.buffer()
    p.launch(a, writes=x)
    p.sync_stream(a)
    p.device_wide_free(y)
    p.launch(a, writes=x)
    assert not p.problems(sl903.RULE)


@pytest.mark.parametrize("kind", [StreamKind.BLOCKING, StreamKind.NON_BLOCKING])
def test_the_legacy_stream_comes_between_blocking_streams(kind: StreamKind) -> None:
    p = Job()
    a, b, legacy = p.stream(kind), p.stream(kind), p.stream(StreamKind.LEGACY)
    p.launch(a, writes=p.buffer())
    between = p.launch(legacy, writes=p.buffer())
    p.launch(b, writes=p.buffer())
    assert p.places(sl904.RULE) == ([between] if kind is StreamKind.BLOCKING else [])


def test_a_barrier_that_orders_shared_memory_is_wanted() -> None:
    p = Job()
    a, b, legacy = p.stream(StreamKind.BLOCKING), p.stream(StreamKind.BLOCKING), p.stream(StreamKind.LEGACY)
    x = p.buffer()
    p.launch(a, writes=x)
    p.launch(legacy, writes=p.buffer())
    p.launch(b, reads=x)
    assert not p.problems(sl904.RULE)


def test_a_stream_need_not_wait_for_itself() -> None:
    p = Job()
    a, b, e = p.stream(), p.stream(), p.event()
    p.record(a, e)
    useless = p.wait(a, e)
    p.wait(b, e)
    again = p.wait(b, e)
    assert p.places(sl905.RULE) == [useless, again]
    assert len(list(sl905.needed(judge(p.trace())))) == 1


def test_the_host_need_not_wait_twice() -> None:
    p = Job()
    a, e = p.stream(), p.event()
    p.record(a, e)
    p.sync_event(e)
    again = p.sync_event(e)
    p.record(a, e)
    p.sync_event(e)
    assert p.places(sl905.RULE) == [again]


# ----------------------------------------------------------------------------- from source


def codes(folder: Path, text: str, prefix: str = "SL") -> list[tuple[str, int]]:
    file = folder / "example.py"
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    report = engine.analyze(folder, [file], engine.Settings())
    assert not report.errors
    return [
        (finding.code, finding.primary.line) for finding in report.findings if finding.code.startswith(prefix)
    ]


COLLECTIVE = """\
    import torch
    import torch.distributed as dist

    def f(flag, group):
        x = torch.ones(8, device="cuda")
        work = dist.all_reduce(x, {arguments})
        y = x * 2
        work.wait()
        torch.cuda.current_stream().synchronize()
        return y
"""


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("async_op=True", True),
        ("dist.ReduceOp.SUM, group, True", True),
        ("group=group, async_op=True", True),
        ("async_op=flag", True),
        ("async_op=False", False),
        ("group=group", False),
    ],
)
def test_the_flag_must_be_known(tmp_path: Path, arguments: str, found: bool) -> None:
    assert codes(tmp_path, COLLECTIVE.format(arguments=arguments)) == ([("SL602", 7)] if found else [])


def test_a_wait_that_only_one_caller_needs_is_not_redundant(tmp_path: Path) -> None:
    text = """\
        import torch

        def waits(stream, event):
            stream.wait_event(event)

        def same():
            a, e = torch.cuda.Stream(), torch.cuda.Event()
            e.record(a)
            waits(a, e)

        {other}
    """
    other = """def different():
            a, b, e = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Event()
            e.record(a)
            waits(b, e)"""
    assert codes(tmp_path, text.format(other="")) == [("SL905", 4)]
    assert codes(tmp_path, text.format(other=other)) == []


LOADER = """\
    import torch
    from torch.utils.data import DataLoader

    def train(dataset, options, collate):
        side = torch.cuda.Stream()
        for batch in DataLoader(dataset{arguments}):
            with torch.cuda.stream(side):
                x = batch.to("cuda", non_blocking=True)
            side.synchronize()
            print(x.sum())
"""


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (", num_workers=4", True),
        (", num_workers=4, pin_memory=False", True),
        (", num_workers=4, pin_memory=True", False),
        (", num_workers=4, **options", False),
        (", num_workers=4, collate_fn=collate", False),
        ("", False),
    ],
)
def test_batches_of_a_loader_that_does_not_pin(tmp_path: Path, arguments: str, found: bool) -> None:
    found_here = codes(tmp_path, LOADER.format(arguments=arguments), "SL9")
    assert found_here == ([("SL901", 8)] if found else [])
