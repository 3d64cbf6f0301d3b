"""Graphs: what was captured into them, and what a launch of one does.

A launch runs all that was captured, on the memory that it was captured with: rebinding a name or
freeing the memory afterwards changes nothing for the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint.frozen import replace
from streamlint.interp.library import capturing, escape, stream_values, tensors
from streamlint.interp.state import arrangement, elements, names, results, symbols
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    ConstV,
    ContextKind,
    ContextV,
    Flavor,
    GraphV,
    StreamV,
    TupleV,
    Value,
    reading,
    symbol_of,
)
from streamlint.models import schema as fx
from streamlint.models.schema import Lib
from streamlint.trace import (
    WHOLE,
    Access,
    Doubt,
    EndCapture,
    Launch,
    Mode,
    Origin,
    Purpose,
    Record,
    Space,
    StreamKind,
    SyncDevice,
    Wait,
    launches_graph,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.library.call import Call
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span
    from streamlint.trace import BufferId, Region, StreamId

_ESCAPED = frozenset({Doubt.ESCAPE})


def carry_out(call: Call, effect: fx.GraphEffect) -> Value | None:
    """Effects on captures and graphs."""
    m, span = call.m, call.span
    match effect:
        case fx.EnterCapture():
            return _entered(call, effect)
        case fx.CaptureStarts(stream, graph):
            if isinstance(target := call.value(graph), GraphV):
                m.captures.into[call.stream(stream).id] = target.id
            capturing.begin(m, call.stream(stream), call.lib, call.value("mode"), span)
            return None
        case fx.SplitsCapture(count):
            return _split(call, call.value(count))
        case fx.JoinsCaptures(streams):
            return _joined(call, elements.listed(m, call.value(streams)) or [])
        case fx.CaptureEnds(stream):
            ended = call.stream(stream).id
            into = m.captures.into.pop(ended, None)
            made = GraphV(into, call.lib) if into is not None else m.new_graph(span, call.lib)
            end(m, ended, made, span, call.lib)
            return made
        case fx.NewGraph():
            return m.new_graph(span, call.lib)
        case fx.InstantiatesGraph(graph):
            return _instantiate(call, call.value(graph))
        case fx.GraphsCallables(callables):
            m.emit(SyncDevice(m.site(span), m.lane, device=m.device, name=call.name(), purpose=Purpose.ASIDE))
            given = elements.listed(m, call.value(callables))
            if given is None:
                return _graphed(m, span)
            return TupleV(tuple(_graphed(m, span) for _ in given))
        case fx.LaunchesGraph(graph, stream):
            launched = call.value(graph)
            if isinstance(launched, GraphV):
                launch(m, launched, call.stream(stream).id, span, call.name())
            return None
        case _:
            assert_never(effect)


def _split(call: Call, count: Value) -> Value:
    """``trunk, twig = root.split(2)``: the first is the one that is split."""
    m, root = call.m, call.stream("self")
    if not isinstance(count, ConstV) or not isinstance(count.value, int):
        return m.result("split", call.span, (root,))
    others = [
        m.new_stream(StreamKind.NON_BLOCKING, "a branch", call.span, call.lib) for _ in range(count.value - 1)
    ]
    for other in others:
        stream_values.waits(m, other.id, root.id, call.span, call.name())
    return TupleV((root, *others))


def _joined(call: Call, builders: list[Value]) -> Value:
    """``GraphBuilder.join(trunk, twig)``; where one is not known, it may be any of the capture."""
    m = call.m
    settled = [names.settle(m, builder) for builder in builders]
    streams = [builder for builder in settled if isinstance(builder, StreamV)]
    if len(streams) < len(settled) or not streams:
        escape.barrier(m, escape.all_streams(m), call.span, call.name())
    for other in streams[1:]:
        stream_values.waits(m, streams[0].id, other.id, call.span, call.name())
    return streams[0] if streams else m.result("join", call.span)


def _entered(call: Call, effect: fx.EnterCapture) -> ContextV:
    """PyTorch captures a stream of its own where none is given, Warp the current one."""
    if call.value(effect.stream) == NONE and call.lib is Lib.TORCH:
        captured = call.m.new_stream(StreamKind.NON_BLOCKING, "the capture stream", call.span, call.lib)
    else:
        captured = call.stream(effect.stream)
    return ContextV(
        ContextKind.CAPTURE,
        captured,
        call.lib,
        mode=call.value("capture_error_mode"),
        graph=call.m.new_graph(call.span, call.lib) if effect.graph is None else call.value(effect.graph),
        pool=call.value(effect.from_pool),
    )


def end(
    m: Machine, stream: StreamId, graph: Value, span: Span, lib: Lib | None, *, raised: bool = False
) -> None:
    """Ends the capture of ``stream`` into ``graph``.

    Warp joins the streams that were forked; other libraries leave that to the caller.
    """
    for other in m.captures.streams if lib is Lib.WARP else ():
        if other != stream:
            stream_values.waits(m, stream, other, span, "the end of the capture")
    doubts = _ESCAPED if raised else frozenset()
    made = graph.id if isinstance(graph, GraphV) else None
    ending = m.captures.ending(stream)
    swapped = arrangement.swapped(ending.stood, arrangement.of_frames(m)) if ending is not None else ()
    m.emit(EndCapture(m.site(span), m.lane, doubts, stream=stream, graph=made, swapped=swapped))
    recording = m.captures.ended.get(stream)
    if isinstance(graph, GraphV) and recording is not None:
        recording.sum_up(m.buffers, m.project.budgets)
        if recording.pool is not None and any(buffer in m.life.captured for buffer, _, _ in recording.modes):
            recording.modes[_pool(m, graph, recording.pool)] = Mode.WRITE
        m.recordings[graph.id] = recording


def symbol_of_call(graph: GraphV, name: str) -> Symbol:
    """What a method of a graph gives, the same each time."""
    return symbols.Call(symbols.Attr(symbol_of(graph), name), ())


def _is_pool(symbol: Symbol) -> bool:
    """``first.pool()``, ``torch.cuda.graph_pool_handle()``"""
    match symbol:
        case symbols.Call(symbols.Attr(_, "pool"), ()):
            return True
        case _:
            chain = (symbol, *symbols.owners(symbol))
            return any(
                "graph_pool_handle" in (symbols.last_name(one), symbols.last_called(one)) for one in chain
            )


def _pool(m: Machine, graph: GraphV, given: Value) -> tuple[BufferId, Region, frozenset[Doubt]]:
    """The memory that a capture of PyTorch allocates from: two graphs may have one pool, for temporaries too.

    ``torch.cuda.graph(second, pool=first.pool())``. An unknown value may as well be ``None``.
    """
    given = names.settle(m, given)
    asked = symbol_of_call(graph, "pool") if given == NONE else symbol_of(given)
    place = symbols.call("pool", asked)
    if place not in m.roles:
        m.roles[place] = m.new_buffer(
            "the shared memory pool", Space.DEVICE, Origin.RESULT, Flavor.TORCH, None
        )
    pool = m.roles[place]
    assert isinstance(pool, BufferV)
    sure = given == NONE or _is_pool(asked)
    return (pool.id, WHOLE, frozenset() if sure else frozenset({Doubt.ALIAS}))


def _instantiate(call: Call, template: Value) -> Value:
    """Two executable graphs of one capture may run at the same time, on the same memory."""
    m = call.m
    recording = None
    if isinstance(template, GraphV):
        recording = m.recordings.get(template.id)
    elif isinstance(template, StreamV):
        recording = m.captures.ended.get(template.id)
    made = m.new_graph(call.span, call.lib)
    if recording is not None:
        m.recordings[made.id] = recording
    return made


def _graphed(m: Machine, span: Span) -> GraphV:
    """A callable that runs a graph. All calls of it give the same memory."""
    made = m.new_graph(span, Lib.TORCH)
    output = m.new_buffer("", Space.DEVICE, Origin.RESULT, Flavor.TORCH, None)
    m.life.captured.add(output.id)
    m.graphed[made.id] = output
    return made


def call_graphed(m: Machine, graph: GraphV, values: Sequence[Value], span: Span) -> Value:
    """``graphed(x)`` copies ``x`` into the static input, launches the graph, and gives the static output."""
    output = m.graphed.get(graph.id)
    if output is None:
        return m.fresh("call", span)
    reads = [reading(view) for view in tensors.buffers_in(m, values)]
    accesses = (*reads, Access(output.id, Mode.WRITE))
    stream = m.current_stream(Lib.TORCH)
    name = m.graphs[graph.id].name
    _launched(m, Launch(m.site(span), m.lane, stream=stream.id, accesses=accesses, name=name, graph=graph.id))
    return results.put_aside(m, output)


def launch(m: Machine, graph: GraphV, stream: StreamId, span: Span, name: str) -> None:
    """What the graph waits for and records inside orders some of its work: nothing surely."""
    recording = m.recordings.get(graph.id)
    at, lane = m.site(span), m.lane
    for event in recording.waits if recording is not None else ():
        m.emit(Wait(at, lane, _ESCAPED, stream=stream, event=event, name=name))
    accesses = recording.accesses() if recording is not None else ()
    _launched(m, Launch(at, lane, stream=stream, accesses=accesses, name=name, graph=graph.id))
    for event in recording.records if recording is not None else ():
        m.emit(Record(at, lane, _ESCAPED, stream=stream, event=event))


def _launched(m: Machine, op: Launch) -> None:
    number = m.emit(op)
    if launches_graph(m.ops[number]):
        # In a capture it is a node, and runs nothing.
        results.launched(m, number, op.accesses)


def changed(m: Machine, graph: GraphV) -> None:
    """Unresolved code received the graph, and may have changed its nodes (``cudaGraphExecUpdate``)."""
    known = m.recordings.get(graph.id)
    if known is not None:
        modes = {(b, region, doubts | _ESCAPED): mode for (b, region, doubts), mode in known.modes.items()}
        m.recordings[graph.id] = replace(known, modes=modes)


def by_hand(
    m: Machine, graph: Value, args: list[Value], kwargs: dict[str, Value], span: Span, *, begins: bool
) -> Value:
    """``graph.capture_begin(pool, capture_error_mode)`` and ``capture_end()`` capture the current stream."""
    stream = m.current_stream(Lib.TORCH)
    if begins:
        mode = kwargs.get("capture_error_mode", args[1] if len(args) > 1 else NONE)
        pool = kwargs.get("pool", args[0] if args else NONE)
        capturing.begin(m, stream, Lib.TORCH, mode, span, pool=pool)
    else:
        end(m, stream.id, names.settle(m, graph), span, Lib.TORCH)
    return NONE
