"""SL509 on hand-written traces: which reads are of a result that a later launch has overwritten."""

from __future__ import annotations

from streamlint.judging.judge import judge
from streamlint.rules import sl509_result_overwritten as sl509
from streamlint.trace import Access, LaneId, Mode, OpId
from tests.test_graph_rules import Graphed


def _result(p: Graphed, launch: OpId) -> Access:
    return Access(p.y, Mode.READ, result_of=launch)


def _found(p: Graphed) -> list[OpId]:
    return [problem.later for problem in sl509.check(judge(p.trace()))]


def test_two_results_in_one_operator() -> None:
    p = Graphed()
    graph = p.graph()
    first = p.replay(graph, p.a)
    second = p.replay(graph, p.a)
    used = p.launch(p.a, _result(p, first), _result(p, second))
    assert _found(p) == [used]


def test_a_result_that_is_read_before_the_next_launch() -> None:
    p = Graphed()
    graph = p.graph()
    for _ in range(2):
        p.launch(p.a, _result(p, p.replay(graph, p.a)))
    assert not _found(p)


def test_one_result_that_is_read_again_and_again_is_the_memory() -> None:
    p = Graphed()
    graph = p.graph()
    first = p.replay(graph, p.a)
    for _ in range(2):
        p.replay(graph, p.a)
        p.launch(p.a, _result(p, first))
    assert not _found(p)


def test_the_memory_beside_an_earlier_result() -> None:
    p = Graphed()
    graph = p.graph()
    first = p.replay(graph, p.a)
    p.replay(graph, p.a)
    used = p.launch(p.a, _result(p, first), Access(p.y, Mode.READ))
    assert _found(p) == [used]


def test_a_variable_that_names_the_memory() -> None:
    p = Graphed()
    graph = p.graph()
    for _ in range(3):
        launch = p.replay(graph, p.a)
        p.replay(graph, p.a)
        p.launch(p.a, Access(p.y, Mode.READ, result_of=launch, by_name=True))
    assert not _found(p)


def test_results_of_two_graphs_that_write_one_memory() -> None:
    p = Graphed()
    first = p.replay(p.graph(), p.a)
    second = p.replay(p.graph(), p.a)
    p.launch(p.a, _result(p, first), _result(p, second))
    assert not _found(p)


def test_what_a_launch_only_updates_may_keep_what_was_there() -> None:
    p = Graphed()
    graph = p.graph()
    first = p.replay(graph, p.a, Access(p.y, Mode.UPDATE))
    second = p.replay(graph, p.a, Access(p.y, Mode.UPDATE))
    p.launch(p.a, _result(p, first), _result(p, second))
    assert not _found(p)


def _given_to_a_thread(p: Graphed, *, joined: bool) -> OpId:
    """A launch, a thread that reads its result, and the next launch."""
    graph, thread = p.graph(), LaneId(1)
    first = p.replay(graph, p.a)
    p.spawn(thread)
    p.launch(p.b, _result(p, first), lane=thread)
    if joined:
        p.join(thread)
    return p.replay(graph, p.a)


def test_a_result_that_another_thread_may_still_have_to_read() -> None:
    p = Graphed()
    again = _given_to_a_thread(p, joined=False)
    assert _found(p) == [again]


def test_a_result_of_a_thread_that_was_joined() -> None:
    p = Graphed()
    _given_to_a_thread(p, joined=True)
    assert not _found(p)
