"""Methods of unknown values: names that only one kind of object has show what it is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streamlint import models
from streamlint.interp.facts import makers, own_makers
from streamlint.interp.library import (
    autograd,
    collectives,
    effects,
    escape,
    extents,
    graphs,
    hooks,
    host_arrays,
    module_memory,
    monitors,
    optimizers,
    processes,
    stream_values,
    tensor_methods,
    tensors,
    threads,
    torch_modules,
    unresolved,
    used_as,
)
from streamlint.interp.python import (
    executors,
    given_objects,
    listed_modules,
    mappings,
)
from streamlint.interp.state import emptied, flavors, names, symbols
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    ConstV,
    DeviceV,
    EventV,
    Flavor,
    HeapV,
    MethodV,
    SymV,
    TupleV,
    Value,
)
from streamlint.models import host, members, python, vocabulary
from streamlint.models import torch as torch_model
from streamlint.models.operands import CAPTURES_BY_HAND
from streamlint.models.schema import Lib, Role
from streamlint.trace import Evidence, MonitorKind, Space

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.models.schema import Framework
    from streamlint.source import Span


RECORD = "record"
"""An event is recorded on a stream, or (CuPy, cuda.core) a stream records an event: the argument tells."""


def method(
    m: Machine, receiver: SymV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """A method of an unknown value: names that only one kind of object has show what it is."""
    torch_modules.shows(m, receiver, name)
    if name in python.TAKES_ONE and all(isinstance(arg, ConstV) for arg in args):
        emptied.took(m, receiver.symbol)
    if name in torch_model.MODULE_RETURNS_SELF and (
        torch_modules.is_shown(m, receiver) or given_objects.is_module(m, receiver)
    ):
        return torch_modules.gives_itself(m, receiver, name, args, kwargs, span)
    if name in torch_model.OPTIMIZER_METHODS:
        optimizer = optimizers.stepped(m, receiver, args)
        return hooks.of_optimizer(
            m, optimizer, name, args, lambda: _method(m, receiver, name, args, kwargs, span), span
        )
    return _method(m, receiver, name, args, kwargs, span)


def _method(
    m: Machine, receiver: SymV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    for kind in (_of_module, _of_maker, _of_stream_or_event, mappings.method):
        if (answer := kind(m, receiver, name, args, kwargs, span)) is not None:
            return answer
    if escape.waits(name, args) and not _is_own(m, receiver, name, span):
        # An unknown thing is waited for: it may be any event or stream seen so far.
        streams = collectives.ordered_by(m, receiver.symbol) or escape.all_streams(m)
        func = symbols.Attr(receiver.symbol, name)
        escape.barrier(m, streams, span, symbols.text_of(func))
        return m.result(func, span, receiver.holds)
    if (answer := _of_memory(m, receiver, name, args, kwargs, span)) is not None:
        return answer
    # worker = object.__new__(Worker); worker.event = e: what was stored in it goes along.
    stored = [value for key, value in m.roles.items() if symbols.is_under(key, receiver.symbol)]
    holds = (*receiver.holds, *stored)
    return unresolved.opaque(m, symbols.Attr(receiver.symbol, name), args, kwargs, span, holds=holds)


def _is_own(m: Machine, receiver: SymV, name: str, span: Span) -> bool:
    """Whether the host waits for a queue, or a thread, that another method of the object makes, or a process.

    ``def start(self): self.ready = Queue()``, and ``self.ready.get()``: what somebody waits for who puts into
    it, stands there. Another process has none of the streams and events of this one.
    """
    if processes.has(makers.of_symbol(m, symbols.Attr(receiver.symbol, name))):
        return True
    owner = m.owners.get(receiver.symbol)
    if owner is None:
        return False
    if name in host.WAITS[MonitorKind.QUEUE]:
        return own_makers.holds_queue(m.project, *owner)
    if name in host.WAITS[MonitorKind.TASKS] and own_makers.holds_queue(m.project, *owner):
        return monitors.counts_itself(m, span)
    return name in python.THREAD_METHODS and own_makers.holds_thread(m.project, *owner)


def _of_module(
    m: Machine, receiver: SymV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """What modules, optimizers and contexts of autograd do."""
    parts = listed_modules.listed(m, receiver, name, args, span)
    if parts is not None:
        return parts
    if name in hooks.OF_OPTIMIZERS or name in torch_model.MODULE_HOOKS:
        taken = hooks.register(m, receiver, name, args, span)
        if taken is not None:
            return taken
    if name == torch_model.REMOVES_HOOK and not args and (removed := hooks.remove(m, receiver)) is not None:
        return removed
    if name == hooks.GRADIENT:
        taken = hooks.register_behind(m, receiver.symbol, args, span)
        if taken is not None:
            return taken
    if name in torch_model.MODULE_LISTINGS and torch_modules.has_no_parameters(m, receiver, kwargs):
        return m.new_list([])
    if name in torch_model.GIVES_OF_MODULE:
        return torch_modules.given(m, receiver.symbol, name, args, layer=torch_modules.is_layer(receiver))
    if name == torch_model.MODULE_STATE and torch_modules.is_shown(m, receiver):
        return torch_modules.state(m, receiver.symbol, layer=torch_modules.is_layer(receiver))
    if name in torch_model.FILLS_MODULE:
        torch_modules.fills_own(m, receiver.symbol, span, layer=torch_modules.is_layer(receiver))
    return NONE if name == autograd.SAVES and autograd.saved(m, receiver, args) else None


def _of_maker(
    m: Machine, receiver: SymV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """What one kind of object has that a library, an executor or an event loop has made."""
    told = models.find_telling(name, kwargs)
    if told is not None and _is_in_use(m, told[1]):
        known = makers.by_name(m, receiver, told[1])
        owner = _as_role(m, receiver, told[0], told[1].lib, span, known)
        return effects.apply(m, told[1], told[2], owner, args, kwargs, span, told=known)
    if name in torch_model.HANDLE_METHODS or (
        name == "stream" and args and stream_values.is_shown(m, args[0], Role.STREAM)
    ):
        return of_device_module(m, symbols.Attr(receiver.symbol, name), args, kwargs, span)
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
    return None


def _of_stream_or_event(
    m: Machine, receiver: SymV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    match _shown_by(m, receiver, name, args):
        case Role.STREAM:
            lib = m.project.arrays_of(m.frame.env.module) if name in vocabulary.ONLY_STREAMS_HAVE else None
            stream = stream_values.as_stream(m, receiver, span, lib)
            return m.python.call(m, MethodV(stream, name), args, kwargs, span)
        case Role.EVENT:
            event = stream_values.as_event(m, receiver, span)
            return m.python.call(m, MethodV(event, name), args, kwargs, span)
        case _:
            return None


def _shown_by(m: Machine, receiver: SymV, name: str, args: list[Value]) -> Role | None:
    """What an unknown value is by a method that it has: a stream or an event."""
    if name in vocabulary.ONLY_STREAMS_HAVE:
        return Role.STREAM
    if name in vocabulary.ONLY_EVENTS_HAVE:
        return Role.EVENT
    if name == RECORD and args and isinstance(names.settle(m, args[0]), EventV):
        return Role.STREAM
    if name == RECORD and (not args or stream_values.is_shown(m, args[0], Role.STREAM)):
        return Role.EVENT
    if name in vocabulary.ORDERS:
        roles = (Role.STREAM, Role.EVENT)
        return next((role for role in roles if stream_values.is_shown(m, receiver, role)), None)
    return None


def _of_memory(
    m: Machine, receiver: SymV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    out = names.settle(m, kwargs["out"]) if "out" in kwargs else None
    if isinstance(out, BufferV) and out.flavor is Flavor.ARRAY:
        # rows.sum(axis=0, out=page): what writes into an array of NumPy is one.
        return host_arrays.function(m, f"numpy.{name}", [receiver, *args], kwargs, span)
    is_none = receiver.symbol in m.plain or tensors.holds_stream(m, receiver)
    # p.grad.float() of a parameter that a module has listed; numbers have such a method, too.
    is_tensor = members.may_give_tensor(name) and module_memory.is_owned(m, receiver.symbol)
    if is_none or not (is_tensor or members.is_tensor_method(name)) or _takes_event(m, args):
        return None
    is_shown = is_tensor or members.shows_tensor(name, kwargs)
    shown = Evidence.INFERRED if is_shown else Evidence.ASSUMED
    used_as.shows(m, receiver, used_as.Use.TENSOR)
    view = tensors.as_buffer(m, receiver, kind=shown)
    return tensor_methods.method(m, view, name, args, kwargs, span)


def _takes_event(m: Machine, args: list[Value]) -> bool:
    """Whether a call gets a stream or an event among other things: ``jobs.add((page, copied))``.

    No tensor has a method for that.
    """
    several = [arg for arg in map(partial(names.settle, m), args) if isinstance(arg, (TupleV, HeapV))]
    return escape.carries_order(m, several)


def is_an_objects(m: Machine, name: str, kwargs: dict[str, Value]) -> bool:
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


def of_device_module(
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
