"""SL303 on hand-written traces: who keeps a callback object until the stream has called it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence
from streamlint.judge import judge
from streamlint.rules import sl303_callback_not_kept_alive as sl303
from streamlint.rules.base import confidence
from streamlint.trace import Free, FreeKind, OpId, Space
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
