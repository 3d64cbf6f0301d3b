"""The order that is missing between two operations: a stream waits for a stream, or the host does."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

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
    from collections.abc import Iterator

    from streamlint.fixes.places import Place, Scene
    from streamlint.trace import StreamId, Trace


def fixed(scene: Scene, earlier: int, later: int, *, whole_device: bool = True) -> Fix | None:
    """A line that makes the later operation come after the earlier one."""
    first, second = stream_at(scene.trace, earlier), stream_at(scene.trace, later)
    if first is None:
        return None
    places = list(scene.places(earlier, later))
    found = _best(_work_waits(place, scene.trace, earlier) for place in places)
    if found is None and second is not None:
        found = _best(_stream_waits(place, first, second) for place in places)
    if found is None:
        around = _through(scene, earlier, later) if second is not None else iter(())
        found = _best(chain(around, (_host_waits(scene, place, first, earlier) for place in places)))
    if found is None and whole_device:
        found = _best(_device_waits(place) for place in places)
    return found


def joined(scene: Scene, earlier: int, later: int) -> Fix | None:
    """The same where only a stream may wait: the host must not during a capture."""
    first, second = stream_at(scene.trace, earlier), stream_at(scene.trace, later)
    if first is None or second is None:
        return None
    places = scene.places(earlier, later)
    return _best(_stream_waits(place, first, second, captured=True) for place in places)


def _best(found: Iterator[Fix | None]) -> Fix | None:
    """The first that is safe, or the first."""
    all_found = [fix for fix in found if fix is not None]
    return next((fix for fix in all_found if fix.safe), all_found[0] if all_found else None)


def _through(scene: Scene, earlier: int, later: int) -> Iterator[Fix | None]:
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
            join = _stream_waits(ending, first, middle) if middle not in (first, second) else None
            if join is None:
                continue
            begins = (
                each for each in scene.places(earlier, later) if each.sight.issued >= ending.sight.issued
            )
            forks = (
                _stream_waits(each, middle, second)
                for each in begins
                if middle in each.sight.current.values()
            )
            fork = _best(forks)
            if fork is not None:
                both = dict.fromkeys((*join.edits, *fork.edits))
                yield Fix(
                    f"{join.title}, and {fork.title[0].lower()}{fork.title[1:]}",
                    tuple(both),
                    join.safe and fork.safe,
                )


def _stream_waits(place: Place, first: StreamId, second: StreamId, *, captured: bool = False) -> Fix | None:
    event = place.event()
    for waiter in words.names_of(place.sight, second):
        if captured and words.captures_by_builders(waiter.lib):
            continue
        for waited in words.names_of(place.sight, first):
            lines = words.stream_waits(place.sight, waiter, waited, event)
            if lines is not None:
                safe = place.is_sure(waiter) and place.is_sure(waited) and place.binds(lines, waiter, waited)
                safe = safe and (captured or not place.may_be_captured())
                return Fix(f"Make `{waiter.text}` wait for `{waited.text}`", (place.insertion(lines),), safe)
    return None


def _host_waits(scene: Scene, place: Place, first: StreamId, earlier: int) -> Fix | None:
    """``torch.cuda.current_stream()`` fails where there is no GPU: it is put where work was surely queued."""
    for waited in words.names_of(place.sight, first):
        line = words.host_waits(place.sight, waited)
        if line is not None:
            edit = place.insertion((line,))
            safe = place.is_sure(waited) and place.binds((line,), waited) and not place.may_be_captured()
            if not waited.simple:
                safe = safe and scene.always_before(earlier, place) and not place.sight.asks_for_gpu()
            return Fix(f"Make the host wait for `{waited.text}`", (edit,), safe)
    return None


def _work_waits(place: Place, trace: Trace, earlier: int) -> Fix | None:
    """``work.wait()`` before what an asynchronous collective writes is used."""
    op = trace.ops[earlier]
    if not isinstance(op, Launch) or op.completes is None:
        return None
    for text, _ in place.sight.events(op.completes):
        edit = place.insertion((f"{text}.wait()",))
        return Fix(f"Wait for `{text}`", (edit,), place.has_surely(text))
    return None


def _device_waits(place: Place) -> Fix | None:
    line = words.host_waits_for_all(place.sight)
    if line is None:
        return None
    return Fix("Make the host wait for the device", (place.insertion((line,)),), safe=False)


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
