"""Calls: who is called, and what happens when that is not known."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streamlint import ir, models
from streamlint.interp.facts import classes, given_functions, no_memory
from streamlint.interp.library import (
    arrays,
    autograd,
    by_reference,
    effects,
    escape,
    graph_methods,
    graphs,
    hooks,
    host_arrays,
    layers,
    operators,
    stream_values,
    tensor_methods,
    torch_modules,
    unresolved,
    used_as,
    weakly,
)
from streamlint.interp.python import (
    contexts,
    foreign_wrappers,
    functions,
    given_objects,
    instances,
    iterators,
    keywords,
    kinds,
    library_calls,
    listed_modules,
    module_containers,
    object_methods,
    super_calls,
    text,
    unknown_receivers,
)
from streamlint.interp.state import elements, lifetime, names, symbols
from streamlint.interp.state.values import (
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
from streamlint.models.schema import Role
from streamlint.trace import Symbol

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.interp.state.machine import Machine
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
        case SymV() if listed_modules.have_hooks(m, func):
            hooks.before_call(m, func, args, span)
            return hooks.after_call(m, func, args, module_containers.in_turn(m, func, args, span), span)
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
    computes = module.computes if isinstance(module, SymV) else ""
    if not computes or not torch_modules.are_on_host(m, args):
        torch_modules.reads_own(m, symbol, span, layer=layer, computes=computes, given=args)
    if isinstance(module, SymV):
        torch_modules.reads_layers(m, module, span)
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
                return unknown_receivers.of_device_module(m, func.symbol, args, kwargs, span)
            return call_method(m, SymV(of, func.holds), name, args, kwargs, span)
        case symbol if (path := _enters(m, symbol, args, kwargs)) is not None:
            return library_calls.call(m, path, args, kwargs, span)
        case symbol:
            return unresolved.opaque(m, symbol, args, kwargs, span, holds=func.holds)


def _enters(m: Machine, func: symbols.Symbol, args: list[Value], kwargs: dict[str, Value]) -> str | None:
    """What a parameter is that gets a stream, if callers show that it makes blocks of it."""
    if func not in m.parameters or len(args) != 1 or kwargs:
        return None
    if not stream_values.is_shown(m, args[0], Role.STREAM):
        return None
    return given_functions.entering(m.project, *m.parameters[func])


# ----------------------------------------------------------------------------- methods


def call_method(
    m: Machine, receiver: Value, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    receiver = names.settle(m, receiver)
    if name == torch_model.CLEARS_GRADIENTS:
        m.accumulated.clear()
    match receiver:
        case ContextV() | StreamV() | DeviceV() if contexts.is_by_hand(receiver, name, args):
            return contexts.by_hand(m, receiver, name, args, span)
        case StreamV() | SymV() if name == vocabulary.STREAM_PROTOCOL:
            return stream_values.by_protocol(m, receiver, span)
        case StreamV() | EventV():
            return _by_table(m, receiver, name, args, kwargs, span)
        case GraphV():
            return graph_methods.method(m, receiver, name, args, kwargs, span)
        case BufferV(flavor=Flavor.OPAQUE | Flavor.TORCH) if name in _NONE_OF_MEMORY:
            # The unresolved result was a future, an event or a stream.
            if name in escape.WAITING:
                no_memory.is_waited_for(m, receiver)
            return _of_no_memory(m, receiver, name, args, kwargs, span)
        case BufferV(flavor=Flavor.OPAQUE) if name in torch_model.HANDLE_METHODS:
            # It was a device module: get_handle(device).current_stream()
            return _of_no_memory(m, receiver, name, args, kwargs, span)
        case BufferV(flavor=Flavor.OPAQUE) if unknown_receivers.is_an_objects(m, name, kwargs):
            # agent = nixl_agent(name, config): what was taken for memory has a method of another thing.
            no_memory.is_waited_for(m, receiver)
            return _of_no_memory(m, receiver, name, args, kwargs, span)
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
            return unknown_receivers.method(m, receiver, name, args, kwargs, span)
        case ConstV(str() | bytes()):
            return text.method(m, receiver, name, args, kwargs, span)
        case FuncV() if name in python.RUNS_ELSEWHERE:
            return call(m, receiver, args, kwargs, span)
        case ClassV(decl) if name == "apply":
            result = autograd.applied(m, decl, args, kwargs, span)
            return unresolved.opaque(m, name, args, kwargs, span) if result is None else result
        case _:
            return unresolved.opaque(m, symbols.Attr(symbol_of(receiver), name), args, kwargs, span)


def _by_table(
    m: Machine,
    receiver: StreamV | EventV,
    name: str,
    args: list[Value],
    kwargs: dict[str, Value],
    span: Span,
) -> Value:
    role, lib = Role.STREAM if isinstance(receiver, StreamV) else Role.EVENT, receiver.lib
    row = models.find_method(role, lib, name) or models.find_method(role, None, name)
    if row is None:
        return unresolved.opaque(m, name, [receiver, *args], kwargs, span)
    return effects.apply(m, row[0], row[1], receiver, args, kwargs, span)


_NONE_OF_MEMORY = frozenset(
    {*escape.WAITING, *vocabulary.ONLY_STREAMS_HAVE, *vocabulary.ONLY_EVENTS_HAVE, unknown_receivers.RECORD}
)


def _of_no_memory(
    m: Machine, receiver: BufferV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """A method of what was taken for memory, and has one that shows what it is."""
    unknown = SymV(symbol_of(receiver), (receiver,))
    return unknown_receivers.method(m, unknown, name, args, kwargs, span)
