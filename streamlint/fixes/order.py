"""The order that is missing between two operations: a stream waits for a stream, or the host does."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from streamlint.finding import Fix
from streamlint.fixes import words
from streamlint.trace import (
    Alloc,
    BeginCapture,
    Callback,
    CallbackEnd,
    Copy,
    EndCapture,
    Free,
    HostAccess,
    Launch,
    Record,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.fixes.places import Place, Scene
    from streamlint.fixes.words import Named
    from streamlint.trace import StreamId, Trace

Ranked: TypeAlias = "tuple[int, Fix]"
"""A fix, and 1 if what it names may not be there: ``side`` behind ``if side is not None: ...``."""


def fixed(scene: Scene, earlier: int, later: int, *, whole_device: bool = True) -> tuple[Fix, ...]:
    """Lines that make the later operation come after the earlier one: the best, and a safe one elsewhere."""
    first, second = stream_at(scene.trace, earlier), stream_at(scene.trace, later)
    if first is None:
        return ()
    places = list(scene.places(earlier, later))
    found = _best(_work_waits(place, scene.trace, earlier) for place in places)
    if not found and second is not None:
        found = _best(_stream_waits(place, first, second) for place in _of_one_device(places))
    if not found:
        around = _through(scene, earlier, later) if second is not None else iter(())
        found = _best(chain(around, (_host_waits(place, first) for place in places)))
    if not found and whole_device:
        found = _best(_device_waits(place) for place in places)
    return found


def _of_one_device(places: Sequence[Place]) -> Sequence[Place]:
    """Those where the device of the nearest is current: elsewhere ``get_current_stream()`` is another one.

    ``with Device(1): y = x.sum()``: the line stands inside, and not before the ``with``.
    """
    return [place for place in places if place.sight.device == places[0].sight.device]


def joined(scene: Scene, earlier: int, later: int) -> tuple[Fix, ...]:
    """The same where only a stream may wait: the host must not during a capture."""
    first, second = stream_at(scene.trace, earlier), stream_at(scene.trace, later)
    if first is None or second is None:
        return ()
    places = scene.places(earlier, later)
    return _best(_stream_waits(place, first, second, captured=True) for place in places)


def _best(found: Iterator[Ranked | None]) -> tuple[Fix, ...]:
    """The first that is sure to name what is there, if any is, and the first that is safe."""
    ranked = [each for each in found if each is not None]
    if not ranked:
        return ()
    best = min(ranked, key=lambda each: each[0])[1]
    safe = next((fix for _, fix in ranked if fix.safe), best)
    return tuple(dict.fromkeys((best, safe)))


def _ranked(place: Place, title: str, lines: Sequence[str], *named: Named) -> Ranked:
    safe = place.is_safe(lines, *named)
    return int(not (safe or place.uses(*named))), Fix(title, (place.insertion(lines),), safe)


def _through(scene: Scene, earlier: int, later: int) -> Iterator[Ranked]:
    """A stream in the middle, where no place can name both: the one that is current around the two.

    For ``for part in parts: side = Stream()``, then ``with stream(side): x = x * part``: the stream of the
    round before has no name any more. So the current stream waits for it behind the ``with``, and in front of
    the next one ``side`` waits for the current stream.
    """
    first, second = stream_at(scene.trace, earlier), stream_at(scene.trace, later)
    assert first is not None
    assert second is not None
    for ending in scene.behind(earlier, later):
        for middle in dict.fromkeys(ending.sight.current.values()):
            joined_by = _stream_waits(ending, first, middle) if middle not in (first, second) else None
            if joined_by is None:
                continue
            rank, join = joined_by
            begins = (
                each for each in scene.places(earlier, later) if each.sight.issued >= ending.sight.issued
            )
            forks = (
                _stream_waits(each, middle, second)
                for each in begins
                if middle in each.sight.current.values()
            )
            for fork in _best(forks)[-1:]:
                both = dict.fromkeys((*join.edits, *fork.edits))
                title = f"{join.title}, and {fork.title[0].lower()}{fork.title[1:]}"
                yield rank, Fix(title, tuple(both), join.safe and fork.safe)


def _stream_waits(
    place: Place, first: StreamId, second: StreamId, *, captured: bool = False
) -> Ranked | None:
    event = place.event()
    for waiter in words.names_of(place.sight, second):
        if captured and words.captures_by_builders(waiter.lib):
            continue
        for waited in words.names_of(place.sight, first):
            lines = words.stream_waits(place.sight, waiter, waited, event)
            if lines is not None:
                return _ranked(place, f"Make `{waiter.text}` wait for `{waited.text}`", lines, waiter, waited)
    return None


def _host_waits(place: Place, first: StreamId) -> Ranked | None:
    for waited in words.names_of(place.sight, first):
        line = words.host_waits(place.sight, waited)
        if line is not None:
            return _ranked(place, f"Make the host wait for `{waited.text}`", (line,), waited)
    return None


def _work_waits(place: Place, trace: Trace, earlier: int) -> Ranked | None:
    """``work.wait()`` before what a collective writes is used; ranks outside of its group have none."""
    op = trace.ops[earlier]
    if not isinstance(op, Launch) or op.completes is None:
        return None
    for text, _ in place.sight.events(op.completes):
        line = f"{text}.{trace.events[op.completes].wait}()"
        return 0, Fix(f"Wait for `{text}`", (place.insertion((line,)),), safe=False)
    return None


def _device_waits(place: Place) -> Ranked | None:
    line = words.host_waits_for_all(place.sight)
    if line is None:
        return None
    return 0, Fix("Make the host wait for the device", (place.insertion((line,)),), safe=False)


def stream_at(trace: Trace, number: int) -> StreamId | None:
    """The stream of device work, and of what a host function does that is queued on one."""
    op = trace.ops[number]
    match op:
        case (
            Launch() | Copy() | Record() | Wait() | Callback() | CallbackEnd() | BeginCapture() | EndCapture()
        ):
            return op.stream
        case Alloc(stream=stream) | Free(stream=stream):
            return stream
        case HostAccess(lane=lane):
            bodies = (each.stream for each in trace.ops if isinstance(each, Callback) and each.body == lane)
            return next(bodies, None)
        case _:
            return None
