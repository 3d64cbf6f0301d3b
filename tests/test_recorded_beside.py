"""Waits for events that another thread records: SL103, by hand-written traces."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from streamlint.judging.judge import judge
from streamlint.rules import recorded_beside
from streamlint.trace import MonitorKind
from tests.traces import Program

if TYPE_CHECKING:
    from streamlint.trace import LaneId, OpId


class Beside(Program):
    """A thread writes memory on a stream of its own and records; another stream waits, and reads."""

    def __init__(self) -> None:
        super().__init__()
        self.memory, self.done = self.buffer(), self.event()
        self.work, self.other, self.thread = self.stream(), self.stream(), self.new_lane()

    def records(self) -> None:
        self.spawn(self.thread)
        self.launch(self.work, writes=self.memory, lane=self.thread)
        self.record(self.work, self.done, self.thread)

    def waits(self) -> OpId:
        number = self.wait(self.other, self.done)
        self.launch(self.other, reads=self.memory)
        return number

    def made_by(self, lane: LaneId) -> None:
        self.events[self.done] = replace(self.events[self.done], lane=lane)

    def found(self) -> list[OpId]:
        return [problem.later for problem in recorded_beside.problems(judge(self.trace()))]


def test_nothing_tells_that_another_thread_has_recorded() -> None:
    p = Beside()
    p.records()
    assert p.found() == []
    number = p.waits()
    assert p.found() == [number]


@pytest.mark.parametrize("kind", [MonitorKind.FLAG, MonitorKind.QUEUE, MonitorKind.CONDITION])
def test_a_signal_behind_the_record_tells(kind: MonitorKind) -> None:
    p = Beside()
    monitor = p.monitor(kind)
    p.records()
    p.host_signal(monitor, p.thread)
    p.host_wait(monitor)
    p.waits()
    assert p.found() == []


def test_a_signal_before_the_record_does_not() -> None:
    p = Beside()
    flag = p.monitor(MonitorKind.FLAG)
    p.host_signal(flag)
    p.records()
    p.host_wait(flag)
    number = p.waits()
    assert p.found() == [number]


def test_a_join_tells() -> None:
    p = Beside()
    p.records()
    p.join(p.thread)
    p.waits()
    assert p.found() == []


def test_a_lock_may_tell() -> None:
    p = Beside()
    lock = p.monitor(MonitorKind.LOCK)
    p.records()
    p.host_wait(lock)
    p.waits()
    assert p.found() == []


def test_who_has_an_event_of_the_thread_got_it_from_there() -> None:
    p = Beside()
    p.made_by(p.thread)
    p.records()
    p.waits()
    assert p.found() == []


def test_a_wait_that_orders_no_memory_of_the_thread_is_left_alone() -> None:
    p = Beside()
    p.records()
    p.wait(p.other, p.done)
    p.launch(p.other, reads=p.buffer())
    assert p.found() == []
