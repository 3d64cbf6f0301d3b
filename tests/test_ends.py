"""What all entries of a module show together about the streams that it makes."""

from __future__ import annotations

from dataclasses import replace

from streamlint.judging.call_ends import Ends, OpenEnd, TwoStreams, Unawaited
from streamlint.source import Span
from streamlint.trace import Event, OpId, Passed, StreamId, StreamKind, Trace
from tests.traces import Program


def shown(*traces: Trace) -> Ends:
    ends = Ends()
    for trace in traces:
        ends.add([trace], "Owner")
    return ends


def somebody(_event: Event) -> bool:
    """May wait for an event."""
    return True


def nobody(_event: Event) -> bool:
    return False


def left(trace: Trace, work: OpId, stream: StreamId) -> OpenEnd:
    made = trace.streams[stream].span
    assert made is not None
    return OpenEnd(made, "side", trace.ops[work].at.span, "Owner.fill", returned=True)


def begun(trace: Trace, work: OpId, stream: StreamId) -> OpenEnd:
    made = trace.streams[stream].span
    assert made is not None
    return OpenEnd(made, "side", trace.ops[work].at.span, "Owner.fill", returned=False)


def test_work_that_nothing_waits_for_is_left_open() -> None:
    p = Program()
    side = p.stream()
    work = p.launch(side, writes=p.buffer())
    assert shown(p.trace()).show(left(p.trace(), work, side), somebody)


def test_a_wait_on_another_path_closes_it() -> None:
    p = Program()
    side = p.stream()
    work = p.launch(side, writes=p.buffer())
    alone = p.trace()
    p.sync_stream(side)
    assert not shown(alone, p.trace()).show(left(alone, work, side), somebody)


def test_a_wait_for_an_earlier_record_does_not() -> None:
    p = Program()
    side, current = p.stream(), p.stream(StreamKind.CURRENT)
    event = p.event()
    p.record(side, event)
    work = p.launch(side, writes=p.buffer())
    p.wait(current, event)
    # A named event would be an announcement for what comes before it only.
    assert shown(p.trace()).show(left(p.trace(), work, side), somebody)


def test_an_event_behind_the_work_announces_it() -> None:
    p = Program()
    side = p.stream()
    work = p.launch(side, writes=p.buffer())
    p.record(side, p.event())
    assert not shown(p.trace()).show(left(p.trace(), work, side), somebody)


def test_an_event_that_nobody_waits_for_announces_nothing() -> None:
    p = Program()
    side = p.stream()
    work = p.launch(side, writes=p.buffer())
    begun = p.trace()
    p.record(side, p.event())
    end, fact = left(p.trace(), work, side), Unawaited(begun.ops[work].at.span)
    assert shown(p.trace()).show(end, nobody)
    assert shown(p.trace()).show(fact, nobody)
    assert not shown(p.trace()).show(fact, somebody)
    assert not shown(begun).show(fact, nobody)
    # The caller gave the memory, and may wait for it in a way of its own.
    assert not shown(p.trace()).show(replace(end, of_caller=True), nobody)


def test_a_stream_that_is_joined_and_never_forked_begins_too_early() -> None:
    p = Program()
    side, current = p.stream(), p.stream(StreamKind.CURRENT)
    work = p.launch(side, reads=p.buffer())
    alone = p.trace()
    event = p.event()
    p.record(side, event)
    p.wait(current, event)
    joined = p.trace()
    assert not shown(alone).show(begun(alone, work, side), somebody)
    assert shown(alone, joined).show(begun(alone, work, side), somebody)
    p.record(current, event)
    p.wait(side, event)
    assert not shown(alone, p.trace()).show(begun(alone, work, side), somebody)


def test_a_wait_remembers_the_work_that_it_came_by() -> None:
    p = Program()
    side = p.stream()
    work = p.launch(side, writes=p.buffer())
    join = p.sync_stream(side)
    end, ends = left(p.trace(), work, side), shown(p.trace())
    assert ends.was_judged(end, p.trace().ops[join].at.span)
    assert not ends.was_judged(end, Span("example.py", 500, 0, 500, 1))


def test_a_given_stream_that_the_current_one_waits_for_is_another() -> None:
    p = Program()
    given, current = p.stream(StreamKind.UNKNOWN), p.stream(StreamKind.CURRENT)
    p.streams[given] = replace(p.streams[given], name="0:side", passed=Passed(0, "side"))
    event = p.event()
    p.record(given, event)
    unordered = p.trace()
    fact = TwoStreams("Owner", p.trace().streams[given].name)
    assert not shown(unordered).show(fact, somebody)
    p.events[event] = replace(p.events[event], span=Span("example.py", 1, 0, 1, 1))
    p.wait(current, event)
    assert shown(p.trace()).show(fact, somebody)
