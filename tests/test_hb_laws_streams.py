"""The ordering laws of streams and events, one test each, on hand-written traces."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamlint.order.hb import HappensBefore, Ordering, Verdict
from streamlint.trace import Doubt, StreamKind
from tests.traces import Program, order, verdict

LEGACY, PER_THREAD = StreamKind.LEGACY, StreamKind.PER_THREAD
BLOCKING, NON_BLOCKING = StreamKind.BLOCKING, StreamKind.NON_BLOCKING
CURRENT, UNKNOWN = StreamKind.CURRENT, StreamKind.UNKNOWN
YES, NO, MAYBE = Verdict.YES, Verdict.NO, Verdict.UNKNOWN

# Streams


def test_another_stream_of_the_same_making_comes_after_what_the_sample_has_done() -> None:
    p = Program()
    sample, other = p.stream(), p.stream()
    one, another = p.stream(), p.stream()
    for name in (one, another):
        p.streams[name] = replace(p.streams[name], made_like=sample)
    a, b = p.launch(sample), p.launch(other)
    first = p.launch(one)
    second = p.launch(another)
    assert [verdict(p, a, first), verdict(p, a, second)] == [YES, YES]
    assert [verdict(p, b, first), verdict(p, first, second)] == [NO, NO]


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


def test_stream_of_a_block_that_callers_may_have_entered_may_be_the_current_one() -> None:
    p = Program()
    lane, other, current = p.stream(NON_BLOCKING), p.stream(NON_BLOCKING), p.stream(CURRENT)
    p.streams[lane] = replace(p.streams[lane], may_be_current=True)
    a = p.launch(lane)
    b = p.launch(current)
    c = p.launch(lane)
    maybe = Ordering(MAYBE, frozenset({Doubt.SAME_STREAM}))
    assert order(p, a, b) == maybe
    assert order(p, b, c) == maybe
    assert verdict(p, p.launch(other), p.launch(lane)) is NO


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
