"""Calls: who is called, and what happens when that is not known."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streamlint import ir, models
from streamlint.interp.facts import classes, makers, no_memory
from streamlint.interp.library import (
    arrays,
    autograd,
    by_reference,
    collectives,
    effects,
    escape,
    extents,
    graph_methods,
    graphs,
    hooks,
    host_arrays,
    layers,
    operators,
    optimizers,
    stream_values,
    tensor_methods,
    tensors,
    threads,
    torch_modules,
    unresolved,
    used_as,
    weakly,
)
from streamlint.interp.python import (
    contexts,
    executors,
    foreign_wrappers,
    functions,
    given_objects,
    instances,
    iterators,
    keywords,
    kinds,
    library_calls,
    mappings,
    module_containers,
    object_methods,
    super_calls,
    text,
)
from streamlint.interp.state import elements, flavors, lifetime, names, symbols
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    CallbackV,
    ClassV,
    ConstV,
    ContextV,
    DeviceV,
    EventV,
    Flavor,
    FuncV,
    GeneratorV,
    GraphV,
    HeapV,
    MethodV,
    ModuleV,
    PartialV,
    QueryV,
    Shape,
    SliceV,
    StreamV,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.models import host, members, python, vocabulary
from streamlint.models import torch as torch_model
from streamlint.models.operands import CAPTURES_BY_HAND
from streamlint.models.schema import Lib, Role
from streamlint.trace import Evidence, Space, Symbol

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.interp.state.machine import Machine
    from streamlint.models.schema import Framework
    from streamlint.source import Span


def evaluate_call(m: Machine, e: ir.Call) -> Value:
    if isinstance(e.func, ir.Name) and e.func.id == "super" and not e.args:
        return SymV(symbols.call("super"))
    if super_calls.is_one(e):
        return super_calls.call(m, e, *arguments(m, e))
    func = names.settle(m, m.python.evaluate(m, e.func, called=True))
    args, kwargs = arguments(m, e)
    m.frames[-1].calling = e
    return call(m, func, args, kwargs, e.span)


def arguments(m: Machine, e: ir.Call) -> tuple[list[Value], dict[str, Value]]:
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    m.spread.pop(e.span, None)
    for argument in e.args:
        value = m.python.evaluate(m, argument.value)
        if argument.star == "*":
            listed = elements.listed(m, value)
            rest = SymV(symbols.Spread(symbol_of(value)), (value,) if isinstance(value, HeapV) else ())
            args.extend(listed if listed is not None else [rest])  # Batch(*parts) holds the parts.
        elif argument.star == "**":
            kwargs.update(keywords.spread(m, value, e.span))
        elif argument.keyword is not None:
            kwargs[argument.keyword] = value
        else:
            args.append(value)
    return args, kwargs


def call(m: Machine, func: Value, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    """Calls a value."""
    func = given_objects.settled(m, names.settle(m, func), *torch_model.CALLED)
    match func:
        case FuncV():
            return functions.call_function(m, func, args, kwargs, span)
        case ClassV(decl):
            return instances.instantiate(m, decl, args, kwargs, span)
        case ApiV(path):
            return library_calls.call(m, path, args, kwargs, span)
        case MethodV(receiver, name):
            return call_method(m, receiver, name, args, kwargs, span)
        case PartialV():
            return call(m, func.func, [*func.args, *args], {**func.kwargs, **kwargs}, span)
        case GraphV():
            return graphs.call_graphed(m, func, [*args, *kwargs.values()], span)
        case CallbackV(func=wrapped):
            return call(m, wrapped, args, kwargs, span)
        case HeapV() if m.heap[func.id].shape is Shape.INSTANCE:
            for name in torch_model.CALLED:
                method = classes.method(m, func, name)
                if method is not None:
                    runs = partial(call, m, method, args, kwargs, span)
                    is_forward = name == torch_model.CALLED[-1]
                    return torch_modules.runs(m, func, args, runs, span) if is_forward else runs()
            if computed := layers.inherited(m, func):
                runs = partial(operators.layer, m, func, computed, args, kwargs, span)
                return torch_modules.runs(m, func, args, runs, span)
            return unresolved.opaque(m, m.symbol_of_object(func), [func, *args], kwargs, span)
        case HeapV() if module_containers.is_sequence(m, func):
            torch_modules.runs_parts(m, m.symbol_of_object(func), args, span)
            return module_containers.in_turn(m, func, args, span)
        case SymV(symbols.Binary("*", symbols.Name(path))) if path.startswith("ctypes."):
            # (ctypes.c_int32 * 1)(): an array of the host
            return host_arrays.of_values(m, args, span)
        case SymV(computes=function) if function:
            return _in_hooks(
                m,
                func,
                args,
                span,
                partial(operators.layer, m, func, function, args, kwargs, span),
                layer=True,
            )
        case SymV(symbols.Call(symbols.Name("type"), _)) if kinds.takes_container(m, args) and not kwargs:
            # type(batch)(x.to(device) for x in batch): what it holds is what it is given.
            return args[0]
        case SymV() if weakly.is_called(m, func):
            return weakly.called(m, func, span)
        case SymV(symbol) if m.makers.get(symbol) in host.MAKE_CLASSES:
            # Handle = namedtuple("Handle", "ptr"): an object that keeps what it is given.
            return m.fresh("object", span, (*args, *kwargs.values()))
        case SymV() | BufferV() if (own := foreign_wrappers.function_of(m, func, args, kwargs)) is not None:
            return functions.call_function(m, own, args, kwargs, span)
        case SymV(symbol):
            torch_modules.is_given(m, func, args)
            return _in_hooks(m, func, args, span, partial(_call_symbol, m, func, args, kwargs, span))
        case BufferV(region=(*owner, Symbol(part))) if part.startswith("."):
            # A method of an unresolved result: symm_mem.get_buffer(...)
            return call_method(m, BufferV(func.id, tuple(owner), func.flavor), part[1:], args, kwargs, span)
        case BufferV():
            torch_modules.called(m, func)
            return _in_hooks(m, func, args, span, partial(_call_memory, m, func, args, kwargs, span))
        case (
            ConstV()
            | StreamV()
            | EventV()
            | DeviceV()
            | ModuleV()
            | GeneratorV()
            | TupleV()
            | ContextV()
            | QueryV()
            | SliceV()
            | HeapV()
        ):
            return unresolved.opaque(m, symbol_of(func), args, kwargs, span)


def _in_hooks(
    m: Machine,
    module: SymV | BufferV,
    args: list[Value],
    span: Span,
    runs: Callable[[], Value],
    *,
    layer: bool = False,
) -> Value:
    """What may be a module that is not followed: it runs its hooks around what it does, and reads its own."""
    symbol = symbol_of(module)
    if not layer:
        hooks.of_parts(m, module, args, span)
    hooks.before_call(m, module, args, span)
    torch_modules.runs_parts(m, symbol, args, span)
    torch_modules.reads_own(m, symbol, span, layer=layer)
    return hooks.after_call(m, module, args, runs(), span)


def _call_memory(m: Machine, func: BufferV, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    lifetime.computes(m, symbol_of(func), span)
    return unresolved.opaque(m, m.buffers[func.id].name or "call", [func, *args], kwargs, span)


def _call_symbol(m: Machine, func: SymV, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    match func.symbol:
        case symbols.Attr(of, name):
            status = by_reference.call(m, func.symbol, args, span)
            if status is not None:
                return status
            if name in torch_model.HANDLE_METHODS or name == "stream":
                return _handle_call(m, func.symbol, args, kwargs, span)
            return call_method(m, SymV(of, func.holds), name, args, kwargs, span)
        case symbol:
            return unresolved.opaque(m, symbol, args, kwargs, span, holds=func.holds)


# ----------------------------------------------------------------------------- methods


def call_method(
    m: Machine, receiver: Value, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    receiver = names.settle(m, receiver)
    match receiver:
        case ContextV() | StreamV() | DeviceV() if contexts.is_by_hand(receiver, name, args):
            return contexts.by_hand(m, receiver, name, args, span)
        case StreamV(_, lib):
            row = models.find_method(Role.STREAM, lib, name) or models.find_method(Role.STREAM, None, name)
            if row is not None:
                return effects.apply(m, row[0], row[1], receiver, args, kwargs, span)
            return unresolved.opaque(m, name, [receiver, *args], kwargs, span)
        case EventV(_, lib):
            row = models.find_method(Role.EVENT, lib, name) or models.find_method(Role.EVENT, None, name)
            if row is not None:
                return effects.apply(m, row[0], row[1], receiver, args, kwargs, span)
            return unresolved.opaque(m, name, [receiver, *args], kwargs, span)
        case GraphV():
            return graph_methods.method(m, receiver, name, args, kwargs, span)
        case BufferV(flavor=Flavor.OPAQUE | Flavor.TORCH) if (
            name in escape.WAITING | vocabulary.ONLY_STREAMS_HAVE | vocabulary.ONLY_EVENTS_HAVE | {_RECORD}
        ):
            # The unresolved result was a future, an event or a stream.
            if name in escape.WAITING:
                no_memory.is_waited_for(m, receiver)
            return symbolic_method(m, SymV(symbol_of(receiver), (receiver,)), name, args, kwargs, span)
        case BufferV(flavor=Flavor.OPAQUE) if name in torch_model.HANDLE_METHODS:
            # It was a device module: get_handle(device).current_stream()
            return symbolic_method(m, SymV(symbol_of(receiver), (receiver,)), name, args, kwargs, span)
        case BufferV(flavor=Flavor.OPAQUE) if _is_an_objects(m, name, kwargs):
            # agent = nixl_agent(name, config): what was taken for memory has a method of another thing.
            no_memory.is_waited_for(m, receiver)
            return symbolic_method(m, SymV(symbol_of(receiver), (receiver,)), name, args, kwargs, span)
        case BufferV():
            if members.is_tensor_method(name):
                used_as.shows(m, receiver, used_as.Use.TENSOR)
            return tensor_methods.method(m, receiver, name, args, kwargs, span)
        case DeviceV():
            row = models.find_method(Role.DEVICE, None, name)
            if row is not None:
                return effects.apply(m, row[0], row[1], receiver, args, kwargs, span)
            return unresolved.opaque(m, symbols.Attr(symbol_of(receiver), name), args, kwargs, span)
        case PartialV(func=ApiV(path)) if models.find_function(f"{path}.{name}") is not None:
            # module.get_function("name"), where the module keeps its source.
            return library_calls.call(m, f"{path}.{name}", args, {**receiver.kwargs, **kwargs}, span)
        case FuncV() if (kernel := arrays.kernel_method(m, receiver, name, args, kwargs)) is not None:
            return kernel
        case HeapV():
            return object_methods.method(m, receiver, name, args, kwargs, span)
        case GeneratorV() if name == "send" and (sent := iterators.sent(m, receiver, args, span)) is not None:
            return sent
        case SymV() if weakly.is_finalizer(m, receiver):
            return weakly.method(m, receiver, name)
        case SymV():
            return symbolic_method(m, receiver, name, args, kwargs, span)
        case ConstV(str() | bytes()):
            return text.method(m, receiver, name, args, kwargs, span)
        case FuncV() if name in python.RUNS_ELSEWHERE:
            return call(m, receiver, args, kwargs, span)
        case ClassV(decl) if name == "apply":
            result = autograd.applied(m, decl, args, kwargs, span)
            return unresolved.opaque(m, name, args, kwargs, span) if result is None else result
        case _:
            return unresolved.opaque(m, symbols.Attr(symbol_of(receiver), name), args, kwargs, span)


_RECORD = "record"
"""An event is recorded on a stream, or (CuPy, cuda.core) a stream records an event: the argument tells."""


def symbolic_method(
    m: Machine, receiver: SymV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """A method of an unknown value: names that only one kind of object has show what it is."""
    torch_modules.shows(m, receiver, name)
    if name in torch_model.MODULE_RETURNS_SELF and (
        torch_modules.is_shown(m, receiver) or given_objects.is_module(m, receiver)
    ):
        return torch_modules.gives_itself(m, receiver, name, args, kwargs, span)
    if name in torch_model.OPTIMIZER_METHODS:
        optimizer = optimizers.stepped(m, receiver, args)
        return hooks.of_optimizer(
            m, optimizer, name, args, lambda: _symbolic_method(m, receiver, name, args, kwargs, span), span
        )
    return _symbolic_method(m, receiver, name, args, kwargs, span)


def _symbolic_method(
    m: Machine, receiver: SymV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    if name in hooks.OF_OPTIMIZERS:
        taken = hooks.register(m, receiver, name, args, span)
        if taken is not None:
            return taken
    if name == hooks.GRADIENT:
        taken = hooks.register_behind(m, receiver.symbol, args, span)
        if taken is not None:
            return taken
    if name in torch_model.FORWARD_HOOKS:
        taken = hooks.register(m, receiver, name, args, span)
        if taken is not None:
            return taken
    if name in torch_model.GIVES_OF_MODULE:
        return torch_modules.given(m, receiver.symbol, name, args, layer=torch_modules.is_layer(receiver))
    if name == torch_model.MODULE_STATE and torch_modules.is_shown(m, receiver):
        return torch_modules.state(m, receiver.symbol, layer=torch_modules.is_layer(receiver))
    if name in torch_model.FILLS_MODULE:
        torch_modules.fills_own(m, receiver.symbol, span, layer=torch_modules.is_layer(receiver))
    if name == autograd.SAVES and autograd.saved(m, receiver, args):
        return NONE
    told = models.find_telling(name, kwargs)
    if told is not None and _is_in_use(m, told[1]):
        known = makers.by_name(m, receiver, told[1])
        owner = _as_role(m, receiver, told[0], told[1].lib, span, known)
        return effects.apply(m, told[1], told[2], owner, args, kwargs, span, told=known)
    if name in torch_model.HANDLE_METHODS or (
        name == "stream" and args and stream_values.is_shown(m, args[0], Role.STREAM)
    ):
        return _handle_call(m, symbols.Attr(receiver.symbol, name), args, kwargs, span)
    if name in host.FROM_ADDRESS:
        args = [extents.at_address(m, args[0], receiver.symbol), *args[1:]] if args else args
        return host_arrays.view(m, "numpy.frombuffer", args, kwargs, span)
    executed = executors.method(m, receiver, name, args, kwargs, span)
    if executed is not None:
        return executed
    if name in python.OF_EVENT_LOOPS:
        settled = [names.settle(m, arg) for arg in args]
        given = threads.of_asyncio(m, name, settled, kwargs, span)
        if given is not None:
            return given
    if name in CAPTURES_BY_HAND:
        return graphs.by_hand(m, receiver, args, kwargs, span, begins=CAPTURES_BY_HAND[name])
    if name in vocabulary.ONLY_STREAMS_HAVE:
        lib = m.project.arrays_of(m.frame.env.module)
        return call_method(m, stream_values.as_stream(m, receiver, span, lib), name, args, kwargs, span)
    if name == _RECORD and args and isinstance(names.settle(m, args[0]), EventV):
        return call_method(m, stream_values.as_stream(m, receiver, span, None), name, args, kwargs, span)
    if name in vocabulary.ONLY_EVENTS_HAVE or (
        name == _RECORD and (not args or stream_values.is_shown(m, args[0], Role.STREAM))
    ):
        return call_method(m, stream_values.as_event(m, receiver, span), name, args, kwargs, span)
    if name in vocabulary.ORDERS and stream_values.is_shown(m, receiver, Role.STREAM):
        return call_method(m, stream_values.as_stream(m, receiver, span), name, args, kwargs, span)
    if name in vocabulary.ORDERS and stream_values.is_shown(m, receiver, Role.EVENT):
        return call_method(m, stream_values.as_event(m, receiver, span), name, args, kwargs, span)
    found = mappings.method(m, receiver, name, args, kwargs, span)
    if found is not None:
        return found
    if escape.waits(name, args):
        # An unknown thing is waited for: it may be any event or stream seen so far.
        streams = collectives.ordered_by(m, receiver.symbol) or escape.all_streams(m)
        func = symbols.Attr(receiver.symbol, name)
        escape.barrier(m, streams, span, symbols.text_of(func))
        return m.result(func, span, receiver.holds)
    out = names.settle(m, kwargs["out"]) if "out" in kwargs else None
    if isinstance(out, BufferV) and out.flavor is Flavor.ARRAY:
        # rows.sum(axis=0, out=page): what writes into an array of NumPy is one.
        return host_arrays.function(m, f"numpy.{name}", [receiver, *args], kwargs, span)
    is_none = receiver.symbol in m.plain or tensors.holds_stream(m, receiver)
    if members.is_tensor_method(name) and not is_none:
        shown = Evidence.INFERRED if members.shows_tensor(name, kwargs) else Evidence.ASSUMED
        used_as.shows(m, receiver, used_as.Use.TENSOR)
        view = tensors.as_buffer(m, receiver, kind=shown)
        return tensor_methods.method(m, view, name, args, kwargs, span)
    # worker = object.__new__(Worker); worker.event = e: what was stored in it goes along.
    stored = [value for key, value in m.roles.items() if symbols.is_under(key, receiver.symbol)]
    holds = (*receiver.holds, *stored)
    return unresolved.opaque(m, symbols.Attr(receiver.symbol, name), args, kwargs, span, holds=holds)


def _is_an_objects(m: Machine, name: str, kwargs: dict[str, Value]) -> bool:
    told = models.find_telling(name, kwargs)
    return told is not None and told[0] is Role.OBJECT and _is_in_use(m, told[1])


def _is_in_use(m: Machine, framework: Framework) -> bool:
    return not framework.told_with or m.project.imports(m.frame.env.module, *framework.told_with)


def _as_role(m: Machine, receiver: SymV, role: Role, lib: Lib, span: Span, known: Evidence) -> Value:
    """An unknown value as what the name of its method shows that it is, from now on."""
    match role:
        case Role.STREAM:
            return stream_values.as_stream(m, receiver, span, lib)
        case Role.EVENT:
            return stream_values.as_event(m, receiver, span)
        case Role.GRAPH:
            graph = m.new_graph(span, lib)
            m.roles[receiver.symbol] = graph
            return graph
        case Role.BUFFER:
            view = tensors.as_buffer(m, receiver, flavors.flavor_of(lib, Space.DEVICE), known)
            # rows[k].set(page, stream=lane): an array of such a library is on a device; buffers of the two
            # others may be on the host.
            return view if lib in (Lib.CORE, Lib.WARP) else m.lives(view, Space.DEVICE, known)
        case Role.DEVICE:
            device = DeviceV(m.device)
            m.roles[receiver.symbol] = device
            return device
        case Role.OBJECT:
            return receiver


def _handle_call(
    m: Machine, func: symbols.Attr, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """``device_module.current_stream()``: the method's name shows that the receiver is a device module."""
    row = models.find_function(f"torch.cuda.{func.name}")
    if not python.HAVE_EVENTS.isdisjoint(makers.of_symbol(m, func).split(".")):
        row = None  # context.Event() of context = multiprocessing.get_context("spawn")
    elif func.name != "set_stream":
        m.device_modules.add(func.of)
    elif func.of not in m.device_modules:
        # communicator.set_stream(side) keeps the stream for itself: others have such a method too.
        row = None
    if row is None:
        return unresolved.opaque(m, func, args, kwargs, span)
    return effects.apply(m, row[0], row[1], None, args, kwargs, span)
