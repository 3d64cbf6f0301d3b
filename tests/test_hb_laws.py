"""The ordering laws, one test each, on hand-written traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.order.hb import EdgeKind, HappensBefore, Ordering, Verdict
from streamlint.trace import (
    MAIN_LANE,
    Doubt,
    GraphId,
    HostEffect,
    MonitorKind,
    OpId,
    Space,
    StreamKind,
)
from tests.traces import Program

if TYPE_CHECKING:
    from streamlint.trace import LaneId, MonitorId, StreamId

LEGACY, PER_THREAD = StreamKind.LEGACY, StreamKind.PER_THREAD
BLOCKING, NON_BLOCKING = StreamKind.BLOCKING, StreamKind.NON_BLOCKING
CURRENT, UNKNOWN = StreamKind.CURRENT, StreamKind.UNKNOWN
YES, NO, MAYBE = Verdict.YES, Verdict.NO, Verdict.UNKNOWN


def order(p: Program, earlier: OpId, later: OpId) -> Ordering:
    return HappensBefore(p.trace()).ordered(earlier, later)


def verdict(p: Program, earlier: OpId, later: OpId) -> Verdict:
    return order(p, earlier, later).verdict


# Streams


def test_same_stream_is_issue_order() -> None:
    p = Program()
    s = p.stream()
    a, b = p.launch(s), p.launch(s)
    assert verdict(p, a, b) is YES
    assert verdict(p, b, a) is NO
    assert verdict(p, a, a) is NO


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (NON_BLOCKING, NON_BLOCKING, NO),
        (BLOCKING, BLOCKING, NO),
        (LEGACY, BLOCKING, YES),
        (BLOCKING, LEGACY, YES),
        (LEGACY, NON_BLOCKING, NO),
        (NON_BLOCKING, LEGACY, NO),
        (LEGACY, PER_THREAD, YES),
        (PER_THREAD, LEGACY, YES),
        (PER_THREAD, BLOCKING, NO),
        (PER_THREAD, NON_BLOCKING, NO),
        (BLOCKING, PER_THREAD, NO),
        (CURRENT, LEGACY, MAYBE),
        (CURRENT, BLOCKING, MAYBE),
        (BLOCKING, CURRENT, MAYBE),
        (PER_THREAD, CURRENT, MAYBE),
        (CURRENT, NON_BLOCKING, NO),
        (NON_BLOCKING, CURRENT, NO),
        (CURRENT, CURRENT, MAYBE),
        (UNKNOWN, UNKNOWN, MAYBE),
        (UNKNOWN, CURRENT, MAYBE),
        (CURRENT, UNKNOWN, MAYBE),
        (UNKNOWN, LEGACY, MAYBE),
        (BLOCKING, UNKNOWN, MAYBE),
        (UNKNOWN, NON_BLOCKING, NO),
    ],
)
def test_two_streams_without_event(first: StreamKind, second: StreamKind, expected: Verdict) -> None:
    p = Program()
    a, b = p.launch(p.stream(first)), p.launch(p.stream(second))
    got = order(p, a, b)
    assert got.verdict is expected
    assert got.doubts == ({Doubt.SAME_STREAM} if expected is MAYBE else frozenset())


def test_stream_from_outside_may_be_a_non_blocking_one_from_outside() -> None:
    p = Program()
    a = p.launch(p.stream(NON_BLOCKING, made_here=False))
    b = p.launch(p.stream(UNKNOWN))
    assert verdict(p, a, b) is MAYBE


def test_legacy_op_between_blocking_streams_orders_them() -> None:
    p = Program()
    a = p.launch(p.stream(BLOCKING))
    p.launch(p.stream(LEGACY))
    b = p.launch(p.stream(BLOCKING))
    assert verdict(p, a, b) is YES


def test_current_stream_between_blocking_streams_may_order_them() -> None:
    p = Program()
    a = p.launch(p.stream(BLOCKING))
    p.launch(p.stream(CURRENT))
    b = p.launch(p.stream(BLOCKING))
    assert order(p, a, b) == Ordering(MAYBE, frozenset({Doubt.SAME_STREAM}))


def test_legacy_barrier_is_per_device() -> None:
    p = Program()
    a = p.launch(p.stream(BLOCKING, "1"))
    b = p.launch(p.stream(LEGACY, "0"))
    assert verdict(p, a, b) is NO


def test_two_names_of_the_legacy_stream_are_one_stream() -> None:
    p = Program()
    a, b = p.launch(p.stream(LEGACY)), p.launch(p.stream(LEGACY))
    assert verdict(p, a, b) is YES


def test_per_thread_streams_of_two_threads_are_two() -> None:
    p = Program()
    s, thread = p.stream(PER_THREAD), p.new_lane()
    p.spawn(thread)
    a, b = p.launch(s), p.launch(s, lane=thread)
    assert verdict(p, a, b) is NO


def test_legacy_barrier_reaches_a_stream_used_much_earlier() -> None:
    p = Program()
    old, legacy, busy = p.stream(BLOCKING), p.stream(LEGACY), p.stream(BLOCKING)
    a = p.launch(old)
    p.launch(busy)
    c = p.launch(legacy)
    d = p.launch(legacy)
    assert [verdict(p, a, c), verdict(p, a, d)] == [YES, YES]


@pytest.mark.parametrize(("kind", "expected"), [(BLOCKING, NO), (LEGACY, YES)])
def test_cached_allocation_is_no_barrier(kind: StreamKind, expected: Verdict) -> None:
    """``s1 kernel; y = empty(); del y; z = empty(); s2 kernel`` puts nothing on the legacy stream."""
    p = Program()
    legacy, s1, s2 = p.stream(LEGACY), p.stream(BLOCKING), p.stream(kind)
    y, z = p.buffer(), p.buffer()
    a = p.launch(s1)
    p.alloc(y, legacy)
    freed = p.free(y, legacy)
    p.alloc(z, legacy)
    b = p.launch(s2)
    assert verdict(p, a, freed) is YES
    assert verdict(p, a, b) is expected


def test_legacy_allocation_comes_before_its_use_on_a_blocking_stream() -> None:
    p = Program()
    x = p.buffer()
    a = p.alloc(x, p.stream(LEGACY))
    b = p.launch(p.stream(BLOCKING), writes=x)
    assert verdict(p, a, b) is YES


def test_stream_ordered_allocation_and_another_stream() -> None:
    p = Program()
    x, s = p.buffer(), p.stream()
    a = p.alloc(x, s)
    assert verdict(p, a, p.launch(s)) is YES
    assert verdict(p, a, p.launch(p.stream())) is NO


# Events


def test_wait_orders_what_was_recorded_and_nothing_later() -> None:
    p = Program()
    s, t, e = p.stream(), p.stream(), p.event()
    before = p.launch(s)
    record = p.record(s, e)
    after = p.launch(s)
    wait = p.wait(t, e)
    use = p.launch(t)
    assert verdict(p, before, use) is YES
    assert verdict(p, after, use) is NO
    assert HappensBefore(p.trace()).record_seen_by(wait) == record


def test_wait_before_any_record_orders_nothing() -> None:
    p = Program()
    s, t, e = p.stream(), p.stream(), p.event()
    a = p.launch(s)
    wait = p.wait(t, e)
    p.record(s, e)
    b = p.launch(t)
    assert verdict(p, a, b) is NO
    assert HappensBefore(p.trace()).record_seen_by(wait) is None


def test_record_after_the_wait_changes_nothing() -> None:
    p = Program()
    s, t, e = p.stream(), p.stream(), p.event()
    a = p.launch(s)
    p.record(s, e)
    p.wait(t, e)
    late = p.launch(s)
    p.record(s, e)
    b = p.launch(t)
    assert [verdict(p, a, b), verdict(p, late, b)] == [YES, NO]


def test_record_on_another_stream_replaces() -> None:
    p = Program()
    s, u, t, e = p.stream(), p.stream(), p.stream(), p.event()
    a = p.launch(s)
    p.record(s, e)
    c = p.launch(u)
    p.record(u, e)
    p.wait(t, e)
    b = p.launch(t)
    assert [verdict(p, a, b), verdict(p, c, b)] == [NO, YES]


def test_event_destroyed_after_the_wait() -> None:
    p = Program()
    s, t, e = p.stream(), p.stream(), p.event()
    a = p.launch(s)
    p.record(s, e)
    p.wait(t, e)
    p.destroy_event(e)
    b = p.launch(t)
    assert verdict(p, a, b) is YES
    late = p.wait(p.stream(), e)
    assert HappensBefore(p.trace()).record_seen_by(late) is None


def test_events_are_transitive() -> None:
    p = Program()
    s, m, t, e, f = p.stream(), p.stream(), p.stream(), p.event(), p.event()
    a = p.launch(s)
    p.record(s, e)
    p.wait(m, e)
    p.record(m, f)
    p.wait(t, f)
    assert verdict(p, a, p.launch(t)) is YES


@pytest.mark.parametrize(("kind", "expected"), [(NON_BLOCKING, NO), (BLOCKING, YES)])
def test_record_on_the_legacy_stream(kind: StreamKind, expected: Verdict) -> None:
    p = Program()
    legacy, s, t, e = p.stream(LEGACY), p.stream(kind), p.stream(kind), p.event()
    a = p.launch(s)
    p.record(legacy, e)
    assert verdict(p, a, p.launch(t)) is expected
    p.wait(t, e)
    assert verdict(p, a, p.launch(t)) is expected


def test_wait_on_the_legacy_stream_holds_back_blocking_streams() -> None:
    p = Program()
    s, e = p.stream(), p.event()
    a = p.launch(s)
    p.record(s, e)
    p.wait(p.stream(LEGACY), e)
    assert verdict(p, a, p.launch(p.stream(BLOCKING))) is YES
    assert verdict(p, a, p.launch(p.stream(NON_BLOCKING))) is NO


def test_wait_across_devices() -> None:
    p = Program()
    s, t, e = p.stream(device="0"), p.stream(device="1"), p.event("0")
    a = p.launch(s)
    p.record(s, e)
    p.wait(t, e)
    assert verdict(p, a, p.launch(t)) is YES


def test_doubtful_wait_gives_unknown() -> None:
    p = Program()
    s, t, e = p.stream(), p.stream(), p.event()
    a = p.launch(s)
    p.record(s, e)
    p.wait(t, e, doubts=frozenset({Doubt.SOME_PATHS}))
    assert order(p, a, p.launch(t)) == Ordering(MAYBE, frozenset({Doubt.SOME_PATHS}))


def test_doubtful_record_keeps_the_old_one_in_doubt() -> None:
    p = Program()
    s, u, t, e = p.stream(), p.stream(), p.stream(), p.event()
    a = p.launch(s)
    p.record(s, e)
    b = p.launch(u)
    p.record(u, e, doubts=frozenset({Doubt.SOME_PATHS}))
    p.wait(t, e)
    use = p.launch(t)
    assert [verdict(p, a, use), verdict(p, b, use)] == [MAYBE, MAYBE]


def test_doubtful_record_on_the_same_stream_covers_the_old_one_for_sure() -> None:
    p = Program()
    s, t, e = p.stream(), p.stream(), p.event()
    a = p.launch(s)
    p.record(s, e)
    b = p.launch(s)
    p.record(s, e, doubts=frozenset({Doubt.SOME_PATHS}))
    p.wait(t, e)
    use = p.launch(t)
    assert [verdict(p, a, use), verdict(p, b, use)] == [YES, MAYBE]


# The host


def test_launch_never_precedes_the_host() -> None:
    p = Program()
    x, y, s = p.buffer(Space.PINNED), p.buffer(), p.stream()
    a = p.host(writes=x)
    copy = p.copy(s, x, y)
    b = p.host(writes=x)
    assert [verdict(p, a, copy), verdict(p, copy, b), verdict(p, a, b)] == [YES, NO, YES]


def test_host_knowledge_orders_other_streams() -> None:
    p = Program()
    s, t = p.stream(), p.stream()
    a = p.launch(s)
    p.sync_stream(s)
    assert verdict(p, a, p.launch(t)) is YES


def test_polling_an_event_is_a_synchronization() -> None:
    p = Program()
    s, e = p.stream(), p.event()
    a = p.launch(s)
    p.record(s, e)
    late = p.launch(s)
    polled = p.sync_event(e)
    assert [verdict(p, a, polled), verdict(p, late, polled)] == [YES, NO]


def test_synchronizing_an_unrecorded_event_is_nothing() -> None:
    p = Program()
    s, e = p.stream(), p.event()
    a = p.launch(s)
    synced = p.sync_event(e)
    assert verdict(p, a, synced) is NO
    assert HappensBefore(p.trace()).record_seen_by(synced) is None


def test_synchronizing_an_idle_blocking_stream_does_not_cover_legacy_work() -> None:
    p = Program()
    legacy, s = p.stream(LEGACY), p.stream(BLOCKING)
    p.launch(s)
    a = p.launch(legacy)
    assert verdict(p, a, p.sync_stream(s)) is NO


def test_an_allocation_does_not_make_an_idle_stream_busy() -> None:
    p = Program()
    legacy, s, x = p.stream(LEGACY), p.stream(BLOCKING), p.buffer()
    a = p.launch(legacy)
    p.alloc(x, s)
    assert verdict(p, a, p.sync_stream(s)) is NO


def test_recording_on_the_idle_blocking_stream_covers_legacy_work() -> None:
    p = Program()
    legacy, s, e = p.stream(LEGACY), p.stream(BLOCKING), p.event()
    a = p.launch(legacy)
    p.record(s, e)
    assert verdict(p, a, p.sync_event(e)) is YES
    assert verdict(p, a, p.sync_stream(s)) is YES


@pytest.mark.parametrize(
    ("kind", "expected"), [(BLOCKING, YES), (PER_THREAD, YES), (NON_BLOCKING, NO), (CURRENT, MAYBE)]
)
def test_synchronizing_the_legacy_stream(kind: StreamKind, expected: Verdict) -> None:
    p = Program()
    a = p.launch(p.stream(kind))
    assert verdict(p, a, p.sync_stream(p.stream(LEGACY))) is expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(LEGACY, MAYBE), (BLOCKING, MAYBE), (PER_THREAD, MAYBE), (NON_BLOCKING, NO), (UNKNOWN, MAYBE)],
)
def test_synchronizing_the_current_stream(kind: StreamKind, expected: Verdict) -> None:
    p = Program()
    a = p.launch(p.stream(kind))
    own = p.stream(CURRENT)
    b = p.launch(p.stream(NON_BLOCKING))
    synced = p.sync_stream(own)
    assert [verdict(p, a, synced), verdict(p, b, synced)] == [expected, NO]


def test_synchronizing_a_stream_twice_covers_new_work() -> None:
    p = Program()
    legacy, s = p.stream(LEGACY), p.stream(BLOCKING)
    a = p.launch(s)
    first = p.sync_stream(legacy)
    b = p.launch(s)
    second = p.sync_stream(legacy)
    assert [verdict(p, a, first), verdict(p, b, first), verdict(p, b, second)] == [YES, NO, YES]


def test_a_doubtful_synchronize_does_not_spare_a_later_one() -> None:
    p = Program()
    s = p.stream()
    a = p.launch(s)
    first = p.sync_device(doubts=frozenset({Doubt.SOME_PATHS}))
    second = p.sync_device()
    assert [verdict(p, a, first), verdict(p, a, second)] == [MAYBE, YES]


def test_device_synchronize_covers_one_device() -> None:
    p = Program()
    a, b = p.launch(p.stream(device="0")), p.launch(p.stream(device="1"))
    synced = p.sync_device("1")
    assert [verdict(p, a, synced), verdict(p, b, synced)] == [NO, YES]


def test_device_synchronize_by_two_threads() -> None:
    p = Program()
    s, thread = p.stream(), p.new_lane()
    p.spawn(thread)
    a = p.launch(s)
    first = p.sync_device()
    second = p.sync_device(lane=thread)
    assert [verdict(p, a, first), verdict(p, a, second)] == [YES, YES]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (HostEffect.ASYNC, NO),
        (HostEffect.STAGED, NO),
        (HostEffect.BLOCKS, YES),
        (HostEffect.BLOCKS_OBSERVED, MAYBE),
    ],
)
def test_what_the_host_knows_after_a_copy(host: HostEffect, expected: Verdict) -> None:
    p = Program()
    s, t, x, y = p.stream(), p.stream(), p.buffer(), p.buffer(Space.PAGEABLE)
    before = p.launch(s)
    other = p.launch(t)
    copy = p.copy(s, x, y, host)
    use = p.host(reads=y)
    elsewhere = p.launch(t)
    assert verdict(p, copy, use) is verdict(p, before, use) is expected
    assert verdict(p, copy, elsewhere) is expected
    assert verdict(p, other, use) is NO
    if expected is MAYBE:
        assert order(p, copy, use).doubts == {Doubt.OBSERVED}


def test_source_of_a_staged_copy_is_released_on_return() -> None:
    p = Program()
    s, x, y = p.stream(), p.buffer(Space.PAGEABLE), p.buffer()
    copy = p.copy(s, x, y, HostEffect.STAGED)
    host = p.host(writes=x)
    elsewhere = p.launch(p.stream())
    hb = HappensBefore(p.trace())
    assert hb.source_released(copy, host).verdict is YES
    assert hb.source_released(copy, elsewhere).verdict is YES
    assert hb.ordered(copy, host).verdict is NO


def test_source_of_a_staged_copy_and_a_thread_that_knows_nothing() -> None:
    p = Program()
    s, x, y, thread = p.stream(), p.buffer(Space.PAGEABLE), p.buffer(), p.new_lane()
    p.spawn(thread)
    copy = p.copy(s, x, y, HostEffect.STAGED)
    host = p.host(writes=x, lane=thread)
    assert HappensBefore(p.trace()).source_released(copy, host).verdict is NO


def test_source_of_a_pinned_copy_is_not_released() -> None:
    p = Program()
    s, x, y = p.stream(), p.buffer(Space.PINNED), p.buffer()
    copy, host = p.copy(s, x, y), p.host(writes=x)
    assert HappensBefore(p.trace()).source_released(copy, host).verdict is NO


def test_staged_copy_reads_its_source_before_its_turn() -> None:
    p = Program()
    s, x, y, z = p.stream(), p.buffer(), p.buffer(Space.PAGEABLE), p.buffer()
    first = p.copy(s, x, y)
    second = p.copy(s, y, z, HostEffect.STAGED)
    hb = HappensBefore(p.trace())
    assert hb.ordered(first, second).verdict is YES
    assert hb.ordered_at_issue(first, second).verdict is NO


def test_staged_copy_of_what_only_seemed_to_be_complete() -> None:
    p = Program()
    s, x, y, z = p.stream(), p.buffer(), p.buffer(Space.PAGEABLE), p.buffer()
    first = p.copy(s, x, y, HostEffect.BLOCKS_OBSERVED)
    second = p.copy(s, y, z, HostEffect.STAGED)
    hb = HappensBefore(p.trace())
    assert hb.ordered_at_issue(first, second) == Ordering(MAYBE, frozenset({Doubt.OBSERVED}))


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
