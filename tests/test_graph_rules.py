"""SL504 on hand-written traces: what a launch of a graph is ordered with, and what it uses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streamlint.finding import Confidence
from streamlint.judging.judge import judge
from streamlint.rules import RULES
from streamlint.rules import sl504_graph_buffer_race as sl504
from streamlint.rules.base import confidence
from streamlint.trace import (
    Access,
    Alloc,
    Doubt,
    Free,
    FreeKind,
    Graph,
    GraphId,
    Launch,
    Mode,
    OpId,
    Space,
    Trace,
)
from tests.traces import Program, access

if TYPE_CHECKING:
    from streamlint.rules.base import Problem
    from streamlint.trace import BufferId, StreamId


class Graphed(Program):
    """A program with graphs: ``x`` is what they read, ``y`` what they write."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = self.stream(), self.stream()
        self.x, self.y = self.buffer(), self.buffer()
        self.graphs: dict[GraphId, Graph] = {}

    def graph(self) -> GraphId:
        number = GraphId(len(self.graphs))
        self.graphs[number] = Graph(number, f"g{number}")
        return number

    def replay(self, graph: GraphId, stream: StreamId, *accesses: Access) -> OpId:
        every = accesses or (Access(self.x, Mode.READ), Access(self.y, Mode.WRITE))
        return self.add(Launch(self._at(), stream=stream, accesses=every, name="replay", graph=graph))

    def drop(self, buffer: BufferId) -> OpId:
        return self.add(Free(self._at(), buffer=buffer, kind=FreeKind.DROPPED))

    def order(self, waiting: StreamId, other: StreamId) -> None:
        event = self.event()
        self.record(other, event)
        self.wait(waiting, event)

    def trace(self) -> Trace:
        return replace(super().trace(), graphs=self.graphs)

    def problems(self) -> list[Problem]:
        return list(sl504.RULE.check(judge(self.trace())))

    def pairs(self) -> list[tuple[OpId | None, OpId]]:
        return [(problem.earlier, problem.later) for problem in self.problems()]


# ----------------------------------------------------------------------------- unordered use


def test_a_refill_that_the_launch_does_not_wait_for() -> None:
    p = Graphed()
    refill = p.launch(p.b, writes=p.x)
    launch = p.replay(p.graph(), p.a)
    assert p.pairs() == [(refill, launch)]
    (problem,) = p.problems()
    assert problem.explains == {(refill, launch)}
    assert confidence(problem, p.trace()) is Confidence.CERTAIN


def test_a_refill_that_the_launch_waits_for() -> None:
    p = Graphed()
    p.launch(p.b, writes=p.x)
    p.order(p.a, p.b)
    p.replay(p.graph(), p.a)
    assert not p.pairs()


def test_a_refill_that_does_not_wait_for_the_last_launch() -> None:
    p = Graphed()
    launch = p.replay(p.graph(), p.a)
    refill = p.launch(p.b, writes=p.x)
    assert p.pairs() == [(launch, refill)]


def test_an_output_read_on_another_stream() -> None:
    p = Graphed()
    launch = p.replay(p.graph(), p.a)
    read = p.launch(p.b, reads=p.y)
    assert p.pairs() == [(launch, read)]


def test_what_the_graph_only_reads_may_be_read_beside_it() -> None:
    p = Graphed()
    p.replay(p.graph(), p.a)
    p.launch(p.b, reads=p.x)
    assert not p.pairs()


def test_the_host_and_pinned_memory_of_a_graph() -> None:
    p = Graphed()
    host = p.buffer(Space.PINNED)
    launch = p.replay(p.graph(), p.a, access(host, Mode.WRITE))
    read = p.host(reads=host)
    p.sync_stream(p.a)
    p.host(reads=host)
    assert p.pairs() == [(launch, read)]


def test_two_guesses_about_unresolved_calls_are_only_possible() -> None:
    p = Graphed()
    opaque = frozenset({Doubt.OPAQUE})
    p.replay(p.graph(), p.a, access(p.x, Mode.UPDATE, doubts=opaque))
    p.replay(p.graph(), p.b, access(p.x, Mode.UPDATE, doubts=opaque))
    (problem,) = p.problems()
    assert confidence(problem, p.trace()) is Confidence.POSSIBLE


def test_the_plain_rules_leave_the_pair_to_it() -> None:
    """The pair is not reported as SL101 too."""
    p = Graphed()
    refill = p.launch(p.b, writes=p.x)
    launch = p.replay(p.graph(), p.a)
    judged = judge(p.trace())
    also = [r.code for r in RULES for q in r.check(judged) if (q.earlier, q.later) == (refill, launch)]
    assert also == ["SL101", "SL504"]


def test_races_without_a_graph_are_not_its_business() -> None:
    p = Graphed()
    p.replay(p.graph(), p.a, access(p.buffer(), Mode.WRITE))
    p.launch(p.a, writes=p.x)
    p.launch(p.b, reads=p.x)
    assert not p.pairs()


# ----------------------------------------------------------------------------- freed memory


def test_memory_that_was_dropped_before_a_launch() -> None:
    p = Graphed()
    graph = p.graph()
    p.replay(graph, p.a)
    drop = p.drop(p.x)
    second = p.replay(graph, p.a)
    third = p.replay(graph, p.a)
    assert p.pairs() == [(drop, second), (drop, third)]


def test_memory_that_is_dropped_after_the_last_launch() -> None:
    p = Graphed()
    p.replay(p.graph(), p.a)
    p.drop(p.x)
    p.replay(p.graph(), p.a, access(p.y, Mode.WRITE))
    assert not p.pairs()


def test_memory_that_the_program_goes_on_to_use_was_not_dropped() -> None:
    p = Graphed()
    graph = p.graph()
    p.drop(p.x)
    p.replay(graph, p.a)
    p.launch(p.a, reads=p.x)
    assert not p.pairs()


def test_memory_of_an_unresolved_result_may_be_held_elsewhere() -> None:
    p = Graphed()
    p.launch(p.a, writes=p.x, doubts=frozenset({Doubt.OPAQUE}))
    p.drop(p.x)
    p.replay(p.graph(), p.a)
    (problem,) = p.problems()
    assert confidence(problem, p.trace()) is Confidence.POSSIBLE


def test_memory_that_is_freed_on_another_stream_while_a_launch_may_use_it() -> None:
    p = Graphed()
    launch = p.replay(p.graph(), p.a)
    free = p.free(p.x, p.b)
    assert p.pairs() == [(launch, free)]
    p = Graphed()
    p.replay(p.graph(), p.a)
    p.free(p.x, p.a)
    assert not p.pairs()


def test_memory_that_is_recycled_while_a_launch_may_use_it() -> None:
    for joined in (False, True):
        p = Graphed()
        p.buffers[p.x] = replace(p.buffers[p.x], alloc_stream=p.a)
        launch = p.replay(p.graph(), p.b)
        p.drop(p.x)
        if joined:
            p.order(p.a, p.b)
        again = p.add(Alloc(p._at(), buffer=p.buffer(), stream=p.a))
        assert p.pairs() == ([] if joined else [(launch, again)])
