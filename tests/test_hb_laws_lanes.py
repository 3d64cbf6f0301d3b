"""Ordering laws: callbacks, threads, flags, graphs and unseen code, one test each, on hand-written traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.order.hb import EdgeKind, HappensBefore, Ordering, Verdict
from streamlint.trace import MAIN_LANE, Doubt, GraphId, MonitorKind, OpId, Space
from tests.traces import Program, order, verdict

if TYPE_CHECKING:
    from streamlint.trace import LaneId, MonitorId, StreamId

YES, NO, MAYBE = Verdict.YES, Verdict.NO, Verdict.UNKNOWN

# Barriers, callbacks, threads


def test_barrier_gives_unknown() -> None:
    p = Program()
    s, t, other = p.stream(), p.stream(), p.stream()
    a, c = p.launch(s), p.launch(other)
    unseen = p.barrier([s, t])
    b = p.launch(t)
    assert order(p, a, b) == Ordering(MAYBE, frozenset({Doubt.ESCAPE}))
    assert [verdict(p, a, unseen), verdict(p, c, b)] == [MAYBE, NO]


def test_barrier_reaches_streams_fed_by_another_thread() -> None:
    p = Program()
    s, t, thread = p.stream(), p.stream(), p.new_lane()
    p.spawn(thread)
    a = p.launch(s)
    p.barrier([s, t], Doubt.BUDGET)
    b = p.launch(t, lane=thread)
    assert order(p, a, b) == Ordering(MAYBE, frozenset({Doubt.BUDGET}))


def test_callback_is_ordered_in_its_stream() -> None:
    p = Program()
    s, body, x = p.stream(), p.new_lane(), p.buffer(Space.PINNED)
    a = p.launch(s)
    known = p.host(writes=x)
    p.callback(s, body)
    inside = p.host(reads=x, lane=body)
    p.callback_end(s, body)
    after = p.launch(s)
    outside = p.host(writes=x)
    assert verdict(p, a, inside) is verdict(p, known, inside) is verdict(p, inside, after) is YES
    assert verdict(p, inside, outside) is NO


def test_many_callbacks_share_a_chain_yet_stay_apart_across_streams() -> None:
    p = Program()
    s, t, x = p.stream(), p.stream(), p.buffer()
    inside = []
    for stream in (s, s, t):
        body = p.new_lane()
        p.callback(stream, body)
        inside.append(p.host(reads=x, lane=body))
        p.callback_end(stream, body)
    assert verdict(p, inside[0], inside[1]) is YES
    assert verdict(p, inside[1], inside[2]) is NO


def test_thread_knows_what_its_parent_knew_and_tells_on_join() -> None:
    p = Program()
    s, t, thread, x = p.stream(), p.stream(), p.new_lane(), p.buffer()
    a = p.launch(s)
    p.sync_stream(s)
    p.spawn(thread)
    b = p.launch(t, lane=thread)
    late = p.host(reads=x)
    inside = p.host(reads=x, lane=thread)
    p.sync_stream(t, lane=thread)
    assert verdict(p, b, p.host(reads=x)) is NO
    p.join(thread)
    use = p.host(reads=x)
    assert verdict(p, a, inside) is verdict(p, b, use) is verdict(p, inside, use) is YES
    assert verdict(p, late, inside) is NO


# Explanation


def test_edges_say_why() -> None:
    p = Program()
    s, t, e = p.stream(), p.stream(), p.event()
    a = p.launch(s)
    record = p.record(s, e)
    wait = p.wait(t, e, doubts=frozenset({Doubt.SOME_PATHS}))
    hb = HappensBefore(p.trace())
    found = {(edge.earlier, edge.later): (edge.kind, edge.doubt) for edge in hb.edges}
    assert found == {(a, record): (EdgeKind.STREAM, None), (record, wait): (EdgeKind.WAIT, Doubt.SOME_PATHS)}
    assert set(hb.graph.edges) == set(found)
    assert hb.graph.edges[record, wait]["doubt"] is Doubt.SOME_PATHS


# ----------------------------------------------------------------------------- graphs


def replay(p: Program, graph: int, stream: StreamId) -> OpId:
    return p.launch(stream, graph=GraphId(graph))


def test_launches_of_one_graph_are_ordered_on_any_streams() -> None:
    p = Program()
    a, b = p.stream(), p.stream()
    before = p.launch(a)
    first = replay(p, 0, a)
    second = replay(p, 0, b)
    after = p.launch(b)
    hb = HappensBefore(p.trace())
    assert hb.ordered(first, second).verdict is Verdict.YES
    assert hb.ordered(before, after).verdict is Verdict.YES
    assert [e.kind for e in hb.edges if (e.earlier, e.later) == (first, second)] == [EdgeKind.GRAPH]


def test_launches_of_two_graphs_are_not() -> None:
    p = Program()
    first = replay(p, 0, p.stream())
    second = replay(p, 1, p.stream())
    assert HappensBefore(p.trace()).ordered(first, second).verdict is Verdict.NO


def test_the_stream_of_the_first_launch_learns_nothing_of_the_second() -> None:
    p = Program()
    a = p.stream()
    replay(p, 0, a)
    second = replay(p, 0, p.stream())
    later = p.launch(a)
    assert HappensBefore(p.trace()).ordered(second, later).verdict is Verdict.NO


# ----------------------------------------------------------------------------- what a flag orders


def signalled(p: Program, flag: MonitorId, lane: LaneId) -> tuple[OpId, OpId]:
    """Work on a stream, a callback that signals, and what comes after a wait for the signal."""
    stream = p.stream()
    work = p.launch(stream)
    p.callback(stream, lane)
    p.host_signal(flag, lane)
    p.callback_end(stream, lane)
    p.host_wait(flag)
    return work, p.launch(p.stream())


def test_a_wait_for_a_flag_that_a_callback_sets_orders_the_stream() -> None:
    p = Program()
    work, after = signalled(p, p.monitor(MonitorKind.FLAG), p.new_lane())
    assert HappensBefore(p.trace()).ordered(work, after).verdict is Verdict.YES


def test_locks_and_queues_order_nothing() -> None:
    for kind in (MonitorKind.LOCK, MonitorKind.QUEUE):
        p = Program()
        work, after = signalled(p, p.monitor(kind), p.new_lane())
        assert HappensBefore(p.trace()).ordered(work, after).verdict is Verdict.NO


def test_a_flag_with_two_setters_or_one_that_is_cleared_orders_nothing_surely() -> None:
    p = Program()
    flag = p.monitor(MonitorKind.FLAG)
    work, after = signalled(p, flag, p.new_lane())
    p.host_signal(flag, MAIN_LANE)
    assert HappensBefore(p.trace()).ordered(work, after).verdict is Verdict.UNKNOWN
    p = Program()
    work, after = signalled(p, p.monitor(MonitorKind.FLAG, reset=True), p.new_lane())
    assert HappensBefore(p.trace()).ordered(work, after).verdict is Verdict.UNKNOWN


def test_who_waits_for_a_queue_knows_what_each_thread_did_before_it_was_done() -> None:
    p = Program()
    tasks, stream = p.monitor(MonitorKind.TASKS), p.stream()
    work, left = [], []
    for lane in (p.new_lane(), p.new_lane()):
        p.spawn(lane)
        work.append(p.launch(stream, lane=lane))
        p.sync_stream(stream, lane)
        p.host_signal(tasks, lane)
        left.append(p.launch(p.stream(), lane=lane))
    p.host_wait(tasks)
    after = p.launch(p.stream())
    hb = HappensBefore(p.trace())
    assert [hb.ordered(one, after).verdict for one in work] == [Verdict.YES, Verdict.YES]
    assert [hb.ordered(one, after).verdict for one in left] == [Verdict.NO, Verdict.NO]


def test_a_condition_that_was_notified_once_orders_like_a_flag() -> None:
    p = Program()
    condition = p.monitor(MonitorKind.CONDITION)
    work, after = signalled(p, condition, p.new_lane())
    assert HappensBefore(p.trace()).ordered(work, after).verdict is Verdict.YES
    p.host_signal(condition, MAIN_LANE)
    assert HappensBefore(p.trace()).ordered(work, after).verdict is Verdict.UNKNOWN


def given_back(p: Program, semaphore: MonitorId, stream: StreamId) -> OpId:
    """Work of a stream, and a callback behind it that gives a semaphore back."""
    work, lane = p.launch(stream), p.new_lane()
    p.callback(stream, lane)
    p.host_signal(semaphore, lane)
    p.callback_end(stream, lane)
    return work


def test_who_takes_a_semaphore_waits_for_those_that_must_have_given_it_back() -> None:
    p = Program()
    semaphore, stream = p.monitor(MonitorKind.SEMAPHORE, count=2), p.stream()
    work = []
    for _ in range(2):
        p.host_wait(semaphore)
        work.append(given_back(p, semaphore, stream))
    early = p.launch(p.stream())
    p.host_wait(semaphore)
    third = p.launch(p.stream())
    p.host_wait(semaphore)
    fourth = p.launch(p.stream())
    hb = HappensBefore(p.trace())
    assert [hb.ordered(one, early).verdict for one in work] == [Verdict.NO, Verdict.NO]
    assert [hb.ordered(one, third).verdict for one in work] == [Verdict.YES, Verdict.NO]
    assert [hb.ordered(one, fourth).verdict for one in work] == [Verdict.YES, Verdict.YES]


def test_either_of_two_streams_may_have_given_a_semaphore_back() -> None:
    p = Program()
    semaphore = p.monitor(MonitorKind.SEMAPHORE, count=2)
    work = []
    for _ in range(2):
        p.host_wait(semaphore)
        work.append(given_back(p, semaphore, p.stream()))
    p.host_wait(semaphore)
    third = p.launch(p.stream())
    p.host_wait(semaphore)
    fourth = p.launch(p.stream())
    hb = HappensBefore(p.trace())
    assert [hb.ordered(one, third).verdict for one in work] == [Verdict.UNKNOWN, Verdict.UNKNOWN]
    assert [hb.ordered(one, fourth).verdict for one in work] == [Verdict.YES, Verdict.YES]


def test_work_queued_after_the_callback_is_not_covered() -> None:
    p = Program()
    flag, lane, stream = p.monitor(MonitorKind.FLAG), p.new_lane(), p.stream()
    p.callback(stream, lane)
    p.host_signal(flag, lane)
    p.callback_end(stream, lane)
    work = p.launch(stream)
    p.host_wait(flag)
    after = p.launch(p.stream())
    assert HappensBefore(p.trace()).ordered(work, after).verdict is Verdict.NO
