"""SL501, SL502 and SL503 on hand-written traces: what is in a capture, refused there, left unjoined."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from streamlint.judging.judge import judge
from streamlint.rules import sl501_sync_in_capture as sl501
from streamlint.rules import sl502_unjoined_capture as sl502
from streamlint.rules import sl503_capture_waits_outside as sl503
from streamlint.rules import sl507_swapped_in_capture as sl507
from streamlint.trace import (
    Access,
    Alloc,
    AllocKind,
    BeginCapture,
    CaptureMode,
    CudaCall,
    Doubt,
    EndCapture,
    EventId,
    GraphId,
    Launch,
    Mode,
    OpId,
    Site,
    Space,
    StreamId,
    StreamKind,
)
from tests.traces import Doubts, Program, place

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.rules.base import Problem, Rule
    from streamlint.source import Span


class Captured(Program):
    """A program with one stream ``main``, whose capture ``begin`` opens and ``end`` closes."""

    def __init__(self, kind: StreamKind = StreamKind.NON_BLOCKING) -> None:
        super().__init__()
        self.main = self.stream(kind)
        self.side = self.stream()

    def begin(self, *, relaxed: bool = False) -> OpId:
        mode = CaptureMode.RELAXED if relaxed else CaptureMode.GLOBAL
        return self.add(BeginCapture(self._at(), stream=self.main, mode=mode))

    def end(self, doubts: Doubts = frozenset()) -> OpId:
        return self.add(EndCapture(self._at(), doubts=doubts, stream=self.main))

    def order(self, waiting: StreamId, other: StreamId) -> OpId:
        event = self.event()
        self.record(other, event)
        return self.wait(waiting, event)

    def query(self, *, stream: StreamId | None = None, event: EventId | None = None) -> OpId:
        return self.add(CudaCall(self._at(), name="query", stream=stream, event=event))

    def own_event(self) -> EventId:
        """An event that the code makes itself."""
        event = self.event()
        self.events[event] = replace(self.events[event], span=place(800 + event))
        return event

    def problems(self, rule: Rule) -> list[Problem]:
        return list(rule.check(judge(self.trace())))

    def places(self, rule: Rule) -> list[OpId]:
        return [problem.later for problem in self.problems(rule)]


# ----------------------------------------------------------------------------- SL501

SYNCS: dict[str, Callable[[Captured], OpId]] = {
    "its stream": lambda p: p.sync_stream(p.main),
    "the device": lambda p: p.sync_device(),
    "a query": lambda p: p.query(stream=p.main),
}
UNSAFE: dict[str, Callable[[Captured], OpId]] = {
    "another stream": lambda p: p.sync_stream(p.side),
    "a query of another": lambda p: p.query(stream=p.side),
    "an allocation": lambda p: p.add(Alloc(p._at(), buffer=p.buffer(), kind=AllocKind.CALL)),
    "a free that was seen to wait": lambda p: p.sync_device(doubts=frozenset({Doubt.OBSERVED})),
}


@pytest.mark.parametrize("relaxed", [False, True])
@pytest.mark.parametrize("sync", SYNCS.values(), ids=SYNCS)
def test_a_capture_refuses_in_every_mode(sync: Callable[[Captured], OpId], *, relaxed: bool) -> None:
    p = Captured()
    p.begin(relaxed=relaxed)
    refused = sync(p)
    p.end()
    (problem,) = p.problems(sl501.RULE)
    assert problem.later == refused
    assert not problem.doubts


@pytest.mark.parametrize("call", UNSAFE.values(), ids=UNSAFE)
def test_unsafe_calls_are_permitted_in_relaxed_mode_only(call: Callable[[Captured], OpId]) -> None:
    for relaxed in (False, True):
        p = Captured()
        p.begin(relaxed=relaxed)
        refused = call(p)
        p.end()
        assert p.places(sl501.RULE) == ([] if relaxed else [refused])


@pytest.mark.parametrize("sync", [*SYNCS.values(), *UNSAFE.values()], ids=[*SYNCS, *UNSAFE])
def test_before_and_after_a_capture_all_is_permitted(sync: Callable[[Captured], OpId]) -> None:
    p = Captured()
    sync(p)
    p.begin()
    p.launch(p.main)
    p.end()
    sync(p)
    assert not p.problems(sl501.RULE)


def test_a_stream_and_an_event_of_the_capture_are_refused_in_relaxed_mode() -> None:
    p = Captured()
    p.begin(relaxed=True)
    p.order(p.side, p.main)
    done = p.own_event()
    p.record(p.side, done)
    refused = [p.sync_stream(p.side), p.sync_event(done), p.query(event=done)]
    p.end()
    assert p.places(sl501.RULE) == refused


def test_an_event_recorded_outside_is_free_in_relaxed_mode() -> None:
    p = Captured()
    done = p.own_event()
    p.record(p.side, done)
    p.begin(relaxed=True)
    p.sync_event(done)
    p.record(p.main, done)
    refused = p.sync_event(done)
    p.record(p.side, done)
    p.sync_event(done)
    p.end()
    assert p.places(sl501.RULE) == [refused]


def test_an_event_of_unseen_code_leaves_a_doubt() -> None:
    p = Captured()
    p.begin()
    p.sync_event(p.event())
    p.end()
    assert [problem.doubts for problem in p.problems(sl501.RULE)] == [{Doubt.ESCAPE}]


def test_caching_allocators_and_other_devices_are_no_concern() -> None:
    p = Captured()
    p.begin()
    p.alloc(p.buffer(), p.main)
    p.alloc(p.buffer(Space.PINNED))
    p.sync_device("1")
    p.end()
    assert not p.problems(sl501.RULE)


def test_a_capture_left_open_ends_with_the_call_that_began_it() -> None:
    """``begin()`` and ``end()`` as two methods: what callers do between them is not known."""
    p = Captured()
    p.begin()
    p.ops.append(replace(p.ops[p.sync_stream(p.main)], at=Site(place(50), call=1)))
    del p.ops[-2]
    assert not p.problems(sl501.RULE)


# ----------------------------------------------------------------------------- SL502


def test_work_of_a_fork_must_be_joined() -> None:
    p = Captured()
    p.begin()
    p.order(p.side, p.main)
    left = p.launch(p.side)
    p.launch(p.side)
    p.launch(p.main)
    p.end()
    assert p.places(sl502.RULE) == [left]


def test_a_join_covers_what_was_queued_before_its_record() -> None:
    p = Captured()
    p.begin()
    p.order(p.side, p.main)
    p.launch(p.side)
    p.order(p.main, p.side)
    assert not p.places(sl502.RULE)
    late = p.launch(p.side)
    p.end()
    assert p.places(sl502.RULE) == [late]


def test_a_join_through_another_stream_counts() -> None:
    for joined in (True, False):
        p = Captured()
        third = p.stream()
        p.begin()
        p.order(p.side, p.main)
        p.order(third, p.side)
        left = p.launch(third)
        if joined:
            p.order(p.side, third)
        p.order(p.main, p.side)
        p.end()
        assert p.places(sl502.RULE) == ([] if joined else [left])


def test_a_fork_without_work_and_streams_outside_need_no_join() -> None:
    p = Captured()
    outside = p.stream()
    p.begin()
    p.order(p.side, p.main)
    p.launch(outside)
    p.end()
    assert not p.problems(sl502.RULE)


def test_a_wait_for_an_older_record_joins_nothing_new() -> None:
    p = Captured()
    done = p.event()
    p.begin()
    p.order(p.side, p.main)
    p.record(p.side, done)
    left = p.launch(p.side)
    p.wait(p.main, done)
    p.end()
    assert p.places(sl502.RULE) == [left]


def test_a_join_after_the_end_is_too_late() -> None:
    p = Captured()
    p.begin()
    p.order(p.side, p.main)
    left = p.launch(p.side)
    p.end()
    p.order(p.main, p.side)
    assert p.places(sl502.RULE) == [left]


def test_unseen_code_and_exceptions_leave_a_doubt() -> None:
    p = Captured()
    p.begin()
    p.order(p.side, p.main)
    p.launch(p.side)
    p.barrier([p.side])
    p.end()
    assert [problem.doubts for problem in p.problems(sl502.RULE)] == [{Doubt.ESCAPE}]
    p = Captured()
    p.begin()
    p.order(p.side, p.main)
    p.launch(p.side)
    p.end(frozenset({Doubt.ESCAPE}))
    assert [problem.doubts for problem in p.problems(sl502.RULE)] == [{Doubt.ESCAPE}]


def test_another_path_that_joins_the_same_work_settles_it() -> None:
    def path(*, joins: bool) -> Captured:
        p = Captured()
        p.begin()
        p.order(p.side, p.main)
        p.launch(p.side)
        if joins:
            p.order(p.main, p.side)
        p.end()
        return p

    (problem,) = path(joins=False).problems(sl502.RULE)
    assert problem.settled_by is not None
    assert problem.settled_by(judge(path(joins=True).trace()))
    assert not problem.settled_by(judge(path(joins=False).trace()))


# ----------------------------------------------------------------------------- SL503


def test_a_record_before_the_capture_is_outside() -> None:
    p = Captured()
    ready = p.event()
    p.record(p.side, ready)
    p.begin()
    refused = p.wait(p.main, ready)
    p.end()
    (problem,) = p.problems(sl503.RULE)
    assert problem.later == refused
    assert not problem.doubts


def test_even_a_record_on_the_capturing_stream_itself_is_outside() -> None:
    p = Captured()
    ready = p.event()
    p.record(p.main, ready)
    p.begin()
    refused = p.wait(p.main, ready)
    p.end()
    assert p.places(sl503.RULE) == [refused]


def test_a_record_on_a_stream_that_was_not_forked_is_outside() -> None:
    p = Captured()
    p.begin()
    p.launch(p.side)
    refused = p.order(p.main, p.side)
    p.end()
    assert p.places(sl503.RULE) == [refused]


def test_a_stream_outside_may_wait_for_outside_records() -> None:
    p = Captured()
    third = p.stream()
    p.begin()
    p.order(third, p.side)
    p.end()
    assert not p.problems(sl503.RULE)


def test_waits_inside_for_new_records_and_for_none_are_permitted() -> None:
    p = Captured()
    ready = p.event()
    p.record(p.side, ready)
    p.begin()
    p.wait(p.main, p.event())
    p.record(p.main, ready)
    p.wait(p.side, ready)
    p.order(p.main, p.side)
    p.end()
    p.wait(p.main, ready)
    assert not p.problems(sl503.RULE)


def test_the_warm_up_pattern_is_right() -> None:
    p = Captured()
    warm = p.stream()
    p.order(warm, p.side)
    p.launch(warm)
    p.order(p.side, warm)
    p.sync_device()
    p.begin()
    p.launch(p.main)
    p.end()
    for rule in (sl501.RULE, sl502.RULE, sl503.RULE):
        assert not p.problems(rule)


def test_a_stream_that_waited_for_unseen_code_may_be_inside() -> None:
    p = Captured()
    p.begin()
    p.wait(p.side, p.event())
    p.order(p.main, p.side)
    p.end()
    assert [problem.doubts for problem in p.problems(sl503.RULE)] == [{Doubt.ESCAPE}]


def test_streams_of_uncertain_identity_leave_a_doubt() -> None:
    p = Captured(StreamKind.CURRENT)
    p.begin()
    p.order(p.main, p.side)
    p.end()
    assert [problem.doubts for problem in p.problems(sl503.RULE)] == [{Doubt.SAME_STREAM}]


def test_notes_lead_from_the_call_to_the_capture() -> None:
    p = Captured()
    begin = p.begin()
    p.order(p.side, p.main)
    p.launch(p.side)
    p.sync_stream(p.main)
    end = p.end()

    def spans(rule: Rule) -> list[Span]:
        return [note.span for problem in p.problems(rule) for note in problem.notes]

    assert spans(sl501.RULE) == [p.ops[begin].at.span]
    assert spans(sl502.RULE)[-1] == p.ops[end].at.span


def test_a_graph_begins_again_with_what_was_swapped_while_it_was_captured() -> None:
    p = Captured()
    first, second = p.buffer(), p.buffer()
    p.begin()
    graph = GraphId(0)
    p.add(EndCapture(p._at(), stream=p.main, graph=graph, swapped=((first, second),)))
    accesses = (Access(first, Mode.READ), Access(second, Mode.WRITE))

    def launch() -> OpId:
        return p.add(Launch(p._at(), stream=p.main, accesses=accesses, name="replay", graph=graph))

    launch()
    p.launch(p.main, writes=first)
    launch()
    assert not list(sl507.check(judge(p.trace())))
    again = launch()
    assert [problem.later for problem in sl507.check(judge(p.trace()))] == [again]
