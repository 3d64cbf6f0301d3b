"""What a finding calls for, by its rule."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from streamlint.finding import Edit, Fix
from streamlint.fixes import order, statements, words
from streamlint.fixes.places import Scene
from streamlint.fixes.replay import Effort, replay
from streamlint.fixes.surroundings import Surroundings
from streamlint.fixes.text import Source
from streamlint.frozen import frozen, replace
from streamlint.interp.state.values import Flavor
from streamlint.models.schema import Lib
from streamlint.trace import (
    BeginCapture,
    CaptureMode,
    CudaCall,
    DestroyEvent,
    DestroyStream,
    EndCapture,
    Free,
    Record,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from streamlint.finding import Finding, Occurrence, Pair
    from streamlint.interp.entries.runs import Run
    from streamlint.interp.state.project import Project
    from streamlint.trace import Op, StreamKind, Trace


@frozen()
class Plans:
    """What would mend the findings of a file."""

    fixes: dict[Pair, tuple[Fix, ...]]
    """The best first."""
    left_out: tuple[Finding, ...]
    """Findings for which it was not looked for, because there is too much to look at."""
    whole: bool = True
    """Whether another run would come to the same."""


def fixes_of(
    findings: Sequence[Finding],
    runs: Sequence[Run],
    project: Project,
    default_stream: StreamKind,
    text: Callable[[str], str | None],
) -> Plans:
    """What would mend the findings of a file.

    The path of each is run once more: only then it is known what the places around can name. ``text`` has
    what stands in a file.
    """
    parsed: dict[str, Source | None] = {}

    def source(path: str) -> Source | None:
        if path not in parsed:
            content = text(path)
            parsed[path] = Source.of(path, content) if content is not None else None
        return parsed[path]

    wanted = [
        (finding, finding.evidence)
        for finding in findings
        if finding.evidence is not None and finding.code in _PLANS
    ]
    numbers: dict[int, set[int]] = {}
    for finding, evidence in wanted:
        numbers.setdefault(id(evidence.trace), set()).update(_needed(finding.code, evidence))
    scenes: dict[int, Scene] = {}
    cut: set[int] = set()
    effort, surroundings = Effort(), Surroundings(project)
    for run in runs:
        for trace in run.traces:
            if id(trace) not in numbers:
                continue
            if effort.left > 0:
                needed = frozenset(numbers[id(trace)])
                onlooker = replay(project, run, trace, needed, default_stream, source, effort)
                if onlooker is not None:
                    scenes[id(trace)] = Scene(trace, onlooker, surroundings)
            if effort.left <= 0:
                cut.add(id(trace))
    fixes = {
        finding.pair: tuple(_PLANS[finding.code](scenes[id(evidence.trace)], evidence))
        for finding, evidence in wanted
        if id(evidence.trace) in scenes
    }
    left_out = (each for each, evidence in wanted if id(evidence.trace) in cut and not fixes.get(each.pair))
    return Plans(fixes, tuple(left_out))


def _needed(code: str, evidence: Occurrence) -> Iterator[int]:
    """The operations whose places a plan asks for."""
    trace, later = evidence.trace, evidence.later
    yield evidence.earlier
    yield later
    match code:
        case "SL101" | "SL102" | "SL201" | "SL202" | "SL204":
            yield from (
                number for number in (_early_record(evidence), _wait_between(evidence)) if number is not None
            )
        case "SL103":
            yield from (number for pair in _explained(evidence) for number in pair)
        case "SL404":
            yield from _destroyed(trace, later)
        case "SL502" | "SL503" | "SL505":
            yield from _capture_around(trace, later)
        case "SL506":
            yield from _captured_before(evidence)
        case _:
            pass


# ----------------------------------------------------------------------------- order


def _race(scene: Scene, evidence: Occurrence) -> Iterator[Fix]:
    if evidence.earlier == evidence.later:
        return
    yield from _record_moved(scene, evidence)
    yield from order.fixed(scene, evidence.earlier, evidence.later)


def _wrong_device(scene: Scene, evidence: Occurrence) -> Iterator[Fix]:
    """A wait for the current device is the mistake itself."""
    yield from order.fixed(scene, evidence.earlier, evidence.later, whole_device=False)


def _early_record(evidence: Occurrence) -> int | None:
    """The record that a wait for the later operation sees, if it was made before the earlier one."""
    trace = evidence.trace
    first, second = (order.stream_at(trace, number) for number in (evidence.earlier, evidence.later))
    for number in range(evidence.later - 1, evidence.earlier, -1):
        wait = trace.ops[number]
        if (isinstance(wait, Wait) and wait.stream == second) or isinstance(wait, SyncEvent):
            seen = (n for n in range(number - 1, -1, -1) if _records(trace.ops[n], wait))
            record = next(seen, None)
            if record is not None and record < evidence.earlier:
                return record if order.stream_at(trace, record) == first else None
    return None


def _records(op: Op, wait: Wait | SyncEvent) -> bool:
    return isinstance(op, Record) and op.event == wait.event


def _is_recorded_beside(trace: Trace, wait: Op) -> bool:
    return isinstance(wait, (Wait, SyncEvent)) and any(
        _records(op, wait) and op.lane != wait.lane for op in trace.ops
    )


def _record_moved(scene: Scene, evidence: Occurrence) -> Iterator[Fix]:
    """``done.record()`` behind the work that it should cover, in one block: the stream is the same there."""
    number = _early_record(evidence)
    record = scene.statement(number) if number is not None else None
    if number is None or record is None or not statements.is_only(record, scene.trace.ops[number].at.span):
        return
    block = record.source.block(record.statement)
    for place in scene.behind(evidence.earlier, evidence.later):
        if place.source is record.source and place.statement in block:
            if block.index(record.statement) > block.index(place.statement):
                # for k in keys: pages[k].copy_(x[k]); ready[k].record(): another one is waited for.
                return
            edits = statements.moved(record.source, record.statement, place)
            if edits is not None:
                yield Fix("Record the event behind the work that it should cover", edits, safe=False)
            return


def _wait_between(evidence: Occurrence) -> int | None:
    """The last wait of a stream for an event before the later operation."""
    ops = evidence.trace.ops
    between = range(evidence.later - 1, evidence.earlier, -1)
    return next((number for number in between if isinstance(ops[number], Wait)), None)


def _host_is_meant(scene: Scene, evidence: Occurrence) -> Iterator[Fix]:
    """``event.synchronize()`` for ``event.wait()``; what is safe is to wait on the host as well."""
    number = _wait_between(evidence)
    wait = scene.statement(number) if number is not None else None
    if number is not None and wait is not None:
        op = scene.trace.ops[number]
        assert isinstance(op, Wait)
        if statements.is_only(wait, op.at.span):
            for text, event in wait.sight.events(op.event):
                line = words.host_waits_event(wait.sight, event.lib, text) if event.lib is not None else None
                if line is not None:
                    title = f"Make the host wait for `{text}`, and no stream"
                    yield Fix(title, (Edit(op.at.span, line),), safe=False)
                    break
    yield from _race(scene, evidence)


def _explained(evidence: Occurrence) -> list[tuple[int, int]]:
    """The pairs that a wait for nothing leaves open, one for each two streams: the first of them."""
    trace = evidence.trace
    found: dict[object, tuple[int, int]] = {}
    for earlier, later in sorted(evidence.explains, key=lambda pair: (pair[1], -pair[0])):
        found.setdefault((order.stream_at(trace, earlier), order.stream_at(trace, later)), (earlier, later))
    return list(found.values())


def _waits_for_nothing(scene: Scene, evidence: Occurrence) -> Iterator[Fix]:
    """The wait taken out, and one for the streams in its place that were meant.

    Not where another thread records what it waits for: what that has queued by then is known to nobody.
    """
    wait, op = scene.statement(evidence.later), scene.trace.ops[evidence.later]
    if wait is None or not statements.is_only(wait, op.at.span) or _is_recorded_beside(scene.trace, op):
        return
    orders = [order.fixed(scene, *pair, whole_device=False) for pair in _explained(evidence)]
    known = [fix for found in orders for fix in found[:1]]
    if len(known) < len(orders):
        return
    edits = dict.fromkeys(
        (statements.removal(wait.source, wait.statement), *(e for fix in known for e in fix.edits))
    )
    title = known[0].title if known else "Take out the wait"
    yield Fix(
        f"{title} instead of for an event that is not recorded" if known else title, tuple(edits), safe=False
    )


# ----------------------------------------------------------------------------- lifetimes


def _kept_alive(scene: Scene, evidence: Occurrence) -> Iterator[Fix]:
    """``x.record_stream(side)``; where there is no such call, as for pinned memory, somebody waits."""
    user = order.stream_at(scene.trace, evidence.earlier)
    kept = scene.trace.buffers[evidence.buffer] if evidence.buffer is not None else None
    if user is not None and kept is not None and not kept.space.on_host:
        for place in scene.places(evidence.earlier, _given_up(scene.trace, evidence)):
            tensors = (text for text, value in place.sight.buffers(kept.id) if value.flavor is Flavor.TORCH)
            tensor = next(tensors, None)
            streams = (
                each for each in words.names_of(place.sight, user) if each.lib is Lib.TORCH and not each.raw
            )
            stream = next(streams, None)
            if tensor is not None and stream is not None:
                lines = (f"{tensor}.record_stream({stream.text})",)
                title = f"Keep `{tensor}` until `{stream.text}` is done with it"
                yield Fix(title, (place.insertion(lines),), place.is_safe(lines, stream, tensor=tensor))
                break
    yield from _race(scene, evidence)


def _given_up(trace: Trace, evidence: Occurrence) -> int:
    """Before which operation a line has to come.

    Where the last use gives the memory up itself, its names mean other memory behind that:
    ``layer.to("cpu", non_blocking=True)``.
    """
    use = trace.ops[evidence.earlier].at.span
    for number in range(evidence.earlier + 1, evidence.later):
        op = trace.ops[number]
        if isinstance(op, Free) and op.buffer == evidence.buffer and op.at.span == use:
            return number
    return evidence.later


def _destroyed(trace: Trace, later: int) -> Iterator[int]:
    """Where the stream or event of an operation was destroyed before it."""
    op = trace.ops[later]
    for number in range(later - 1, -1, -1):
        other = trace.ops[number]
        if (isinstance(other, DestroyStream) and other.stream == getattr(op, "stream", None)) or (
            isinstance(other, DestroyEvent) and other.event == getattr(op, "event", None)
        ):
            yield number
            return


def _destroyed_later(scene: Scene, evidence: Occurrence) -> Iterator[Fix]:
    """Destroyed behind the last use, and once."""
    use, op = scene.statement(evidence.later), scene.trace.ops[evidence.later]
    number = next(_destroyed(scene.trace, evidence.later), None)
    destroyed = scene.statement(number) if number is not None else None
    if use is None or number is None or destroyed is None:
        return
    if isinstance(op, (DestroyStream, DestroyEvent)):
        yield from _taken_out(scene, evidence)
        return
    block = destroyed.source.block(destroyed.statement)
    if statements.is_only(destroyed, scene.trace.ops[number].at.span) and use.statement in block:
        edits = statements.moved(destroyed.source, destroyed.statement, replace(use, behind=True))
        if edits is not None:
            yield Fix("Destroy it behind its last use", edits, safe=False)


# ----------------------------------------------------------------------------- captures


def _capture_around(trace: Trace, number: int) -> tuple[int, int] | tuple[()]:
    """Where the capture begins and ends that an operation falls into."""
    begin = next((n for n in range(number, -1, -1) if isinstance(trace.ops[n], BeginCapture)), None)
    end = next((n for n in range(number, len(trace.ops)) if isinstance(trace.ops[n], EndCapture)), None)
    return () if begin is None or end is None else (begin, end)


def _joined_to_capture(scene: Scene, evidence: Occurrence) -> Iterator[Fix]:
    around = _capture_around(scene.trace, evidence.later)
    if around:
        yield from order.joined(scene, evidence.later, around[1])


def _forked_from_capture(scene: Scene, evidence: Occurrence) -> Iterator[Fix]:
    around = _capture_around(scene.trace, evidence.later)
    if not around:
        return
    fork = order.joined(scene, around[0], evidence.later)
    join = order.joined(scene, evidence.later, around[1])
    if fork and join:
        title = f"{fork[0].title}, and the other way round behind it"
        yield Fix(title, (*fork[0].edits, *join[0].edits), safe=False)


def _waits_before_capture(scene: Scene, evidence: Occurrence) -> Iterator[Fix]:
    """The wait in front of the capture: what the graph runs on comes after it there."""
    around = _capture_around(scene.trace, evidence.later)
    wait = scene.statement(evidence.later)
    begin = scene.statement(around[0]) if around else None
    if wait is None or begin is None or not statements.is_only(wait, scene.trace.ops[evidence.later].at.span):
        return
    edits = statements.moved(wait.source, wait.statement, begin)
    if edits is not None and begin.sees(wait):
        yield Fix("Wait before the capture begins", edits, safe=False)


def _captured_before(evidence: Occurrence) -> Iterator[int]:
    """The end of the capture that the memory is part of."""
    for number in range(evidence.later - 1, -1, -1):
        op = evidence.trace.ops[number]
        if isinstance(op, EndCapture) and any(each.buffer == evidence.buffer for each in op.writes):
            yield number
            return


def _launched_first(scene: Scene, evidence: Occurrence) -> Iterator[Fix]:
    """``graph.replay()`` between the capture and the first read."""
    for end in _captured_before(evidence):
        ended = scene.trace.ops[end]
        assert isinstance(ended, EndCapture)
        if ended.graph is None:
            return
        for place in chain(scene.behind(end, evidence.later), scene.places(end, evidence.later)):
            for text, graph in place.sight.graphs(ended.graph):
                lib = graph.lib
                line = words.launches(place.sight, lib, text, ended.stream) if lib is not None else None
                if line is not None:
                    yield Fix(f"Launch `{text}` first", (place.insertion((line,)),), safe=False)
                    return


_ORDERING = (SyncStream, SyncEvent, SyncDevice)


def _own_mode(scene: Scene, evidence: Occurrence) -> Iterator[Fix]:
    """``torch.cuda.graph(graph, capture_error_mode="thread_local")``: other threads may do what they want."""
    begin, place = scene.trace.ops[evidence.later], scene.statement(evidence.later)
    if place is None or not isinstance(begin, BeginCapture) or begin.mode is not CaptureMode.GLOBAL:
        return
    edit = statements.with_keyword(
        place, begin.at.span, "torch.cuda.graph", "capture_error_mode", '"thread_local"'
    )
    if edit is not None:
        yield Fix("Capture in the mode of one thread", (edit,), safe=False)


def _not_in_capture(scene: Scene, evidence: Occurrence) -> Iterator[Fix]:
    """A synchronization or a query whose answer nobody uses is taken out."""
    if isinstance(scene.trace.ops[evidence.later], (*_ORDERING, CudaCall)):
        yield from _taken_out(scene, evidence)


def _taken_out(scene: Scene, evidence: Occurrence) -> Iterator[Fix]:
    call = scene.statement(evidence.later)
    if call is not None and statements.is_only(call, scene.trace.ops[evidence.later].at.span):
        yield Fix("Take out the call", (statements.removal(call.source, call.statement),), safe=False)


_PLANS: dict[str, Callable[[Scene, Occurrence], Iterator[Fix]]] = {
    **dict.fromkeys(("SL101", "SL102", "SL104", "SL201", "SL202", "SL303"), _race),
    **dict.fromkeys(("SL402", "SL403", "SL504", "SL601", "SL602", "SL701"), _race),
    "SL103": _waits_for_nothing,
    "SL105": _wrong_device,
    "SL204": _host_is_meant,
    "SL401": _kept_alive,
    "SL404": _destroyed_later,
    "SL405": _taken_out,
    "SL501": _not_in_capture,
    "SL502": _joined_to_capture,
    "SL503": _waits_before_capture,
    "SL505": _forked_from_capture,
    "SL506": _launched_first,
    "SL508": _own_mode,
    "SL905": _taken_out,
}
FIXED = frozenset(_PLANS)
"""Codes of the rules that have fixes."""
