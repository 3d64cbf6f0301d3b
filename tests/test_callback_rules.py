"""SL302 and SL303 on hand-written traces: who waits for whom, and who keeps a callback object alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence
from streamlint.judging.judge import judge
from streamlint.rules import sl302_blocking_host_callback as sl302
from streamlint.rules import sl303_callback_not_kept_alive as sl303
from streamlint.rules.base import confidence
from streamlint.trace import (
    Free,
    FreeKind,
    HostEffect,
    MonitorKind,
    OpId,
    Space,
)
from tests.traces import Program

if TYPE_CHECKING:
    from streamlint.rules.base import Problem
    from streamlint.trace import BufferId, StreamId


class Calling(Program):
    """A program with one stream ``main`` and a callback object ``code``."""

    def __init__(self) -> None:
        super().__init__()
        self.main, self.side = self.stream(), self.stream()
        self.code = self.buffer(Space.PAGEABLE)

    def queue(self, stream: StreamId, code: BufferId | None) -> tuple[OpId, OpId]:
        body = self.new_lane()
        begin = self.callback(stream, body, code=code)
        return begin, self.callback_end(stream, body)

    def drop(self, code: BufferId) -> OpId:
        return self.add(Free(self._at(), buffer=code, kind=FreeKind.DROPPED))

    def problems(self) -> list[Problem]:
        return list(sl303.RULE.check(judge(self.trace())))


def test_an_object_that_goes_before_the_host_knows_that_it_was_called() -> None:
    p = Calling()
    begin, end = p.queue(p.main, p.code)
    drop = p.drop(p.code)
    p.sync_stream(p.main)
    (problem,) = p.problems()
    assert (problem.primary, problem.earlier, problem.later) == (begin, end, drop)
    assert confidence(problem, p.trace()) is Confidence.CERTAIN


def test_an_object_that_goes_after_a_synchronization() -> None:
    p = Calling()
    p.queue(p.main, p.code)
    p.sync_stream(p.main)
    p.drop(p.code)
    assert not p.problems()


def test_a_synchronization_of_another_stream_does_not_help() -> None:
    p = Calling()
    p.queue(p.main, p.code)
    p.sync_stream(p.side)
    p.drop(p.code)
    assert len(p.problems()) == 1


def test_each_queued_call_counts() -> None:
    """The same object on two streams, of which one is waited for."""
    p = Calling()
    p.queue(p.main, p.code)
    second, _ = p.queue(p.side, p.code)
    p.sync_stream(p.main)
    p.drop(p.code)
    assert [problem.primary for problem in p.problems()] == [second]


def test_calls_queued_after_another_object_was_dropped() -> None:
    p = Calling()
    p.drop(p.code)
    p.queue(p.main, p.buffer(Space.PAGEABLE))
    assert not p.problems()


def test_an_object_that_the_library_keeps() -> None:
    p = Calling()
    p.queue(p.main, None)
    p.drop(p.code)
    assert not p.problems()


@pytest.mark.parametrize("streams", [("main",), ("main", "side")])
def test_unseen_code_that_received_the_stream_may_wait_for_it(streams: tuple[str, ...]) -> None:
    p = Calling()
    p.queue(p.main, p.code)
    p.barrier([getattr(p, name) for name in streams])
    p.drop(p.code)
    (problem,) = p.problems()
    assert confidence(problem, p.trace()) is Confidence.POSSIBLE


# ----------------------------------------------------------------------------- SL302


class Blocking(Program):
    """A program with one stream ``main`` whose callback waits at a monitor."""

    def __init__(self, kind: MonitorKind) -> None:
        super().__init__()
        self.main, self.side = self.stream(), self.stream()
        self.at = self.monitor(kind)

    def callback_waiting(self, stream: StreamId) -> OpId:
        body = self.new_lane()
        self.callback(stream, body)
        waiting = self.host_wait(self.at, body)
        self.callback_end(stream, body)
        return waiting

    def problems(self) -> list[Problem]:
        return list(sl302.RULE.check(judge(self.trace())))

    def places(self) -> list[OpId]:
        return [problem.later for problem in self.problems()]


def test_a_lock_that_is_held_while_its_stream_is_waited_for() -> None:
    p = Blocking(MonitorKind.LOCK)
    p.host_wait(p.at)
    waiting = p.callback_waiting(p.main)
    p.sync_stream(p.main)
    p.host_signal(p.at)
    (problem,) = p.problems()
    assert problem.later == waiting
    assert confidence(problem, p.trace()) is Confidence.CERTAIN


def test_a_lock_that_is_taken_between_the_callback_and_the_wait() -> None:
    p = Blocking(MonitorKind.LOCK)
    waiting = p.callback_waiting(p.main)
    p.host_wait(p.at)
    p.sync_stream(p.main)
    p.host_signal(p.at)
    assert p.places() == [waiting]


def test_a_lock_that_is_given_back_before_the_wait() -> None:
    p = Blocking(MonitorKind.LOCK)
    p.host_wait(p.at)
    p.callback_waiting(p.main)
    p.host_signal(p.at)
    p.sync_stream(p.main)
    assert not p.places()


def test_a_lock_held_while_another_stream_is_waited_for() -> None:
    p = Blocking(MonitorKind.LOCK)
    p.host_wait(p.at)
    p.callback_waiting(p.main)
    p.sync_stream(p.side)
    p.host_signal(p.at)
    p.sync_stream(p.main)
    assert not p.places()


def test_a_lock_held_while_a_finished_callback_is_waited_for_again() -> None:
    p = Blocking(MonitorKind.LOCK)
    p.callback_waiting(p.main)
    p.sync_stream(p.main)
    p.host_wait(p.at)
    p.sync_stream(p.main)
    p.host_signal(p.at)
    assert not p.places()


@pytest.mark.parametrize("host", [HostEffect.BLOCKS, HostEffect.BLOCKS_OBSERVED, HostEffect.ASYNC])
def test_a_copy_that_blocks_waits_for_the_callback_too(host: HostEffect) -> None:
    p = Blocking(MonitorKind.LOCK)
    p.host_wait(p.at)
    waiting = p.callback_waiting(p.main)
    p.copy(p.main, p.buffer(), p.buffer(Space.PAGEABLE), host)
    p.host_signal(p.at)
    assert p.places() == ([] if host is HostEffect.ASYNC else [waiting])


def test_an_event_of_the_stream_that_was_recorded_before_the_callback() -> None:
    p = Blocking(MonitorKind.LOCK)
    event = p.event()
    p.record(p.main, event)
    p.host_wait(p.at)
    p.callback_waiting(p.main)
    p.sync_event(event)
    p.host_signal(p.at)
    assert not p.places()


@pytest.mark.parametrize("kind", [MonitorKind.FLAG, MonitorKind.QUEUE])
def test_a_signal_that_comes_only_after_the_wait(kind: MonitorKind) -> None:
    p = Blocking(kind)
    waiting = p.callback_waiting(p.main)
    p.sync_stream(p.main)
    p.host_signal(p.at)
    assert p.places() == [waiting]


@pytest.mark.parametrize("kind", [MonitorKind.FLAG, MonitorKind.QUEUE])
def test_a_signal_before_the_wait_or_from_another_thread(kind: MonitorKind) -> None:
    p = Blocking(kind)
    p.callback_waiting(p.main)
    p.host_signal(p.at)
    p.sync_stream(p.main)
    p.host_signal(p.at)
    assert not p.places()
    p = Blocking(kind)
    thread = p.new_lane()
    p.spawn(thread)
    p.host_signal(p.at, thread)
    p.callback_waiting(p.main)
    p.sync_stream(p.main)
    p.host_signal(p.at)
    assert not p.places()


def test_nobody_was_seen_to_signal() -> None:
    p = Blocking(MonitorKind.FLAG)
    p.callback_waiting(p.main)
    p.sync_stream(p.main)
    assert not p.places()
