"""The ordering laws of the host and of copies, one test each, on hand-written traces."""

from __future__ import annotations

import pytest

from streamlint.order.hb import HappensBefore, Ordering, Verdict
from streamlint.trace import Doubt, HostEffect, Space, StreamKind
from tests.traces import Program, order, verdict

LEGACY, PER_THREAD = StreamKind.LEGACY, StreamKind.PER_THREAD
BLOCKING, NON_BLOCKING = StreamKind.BLOCKING, StreamKind.NON_BLOCKING
CURRENT, UNKNOWN = StreamKind.CURRENT, StreamKind.UNKNOWN
YES, NO, MAYBE = Verdict.YES, Verdict.NO, Verdict.UNKNOWN

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
