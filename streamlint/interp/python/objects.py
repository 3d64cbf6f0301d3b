"""Attributes, classes and instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir, models
from streamlint.frozen import replace
from streamlint.interp.facts import classes, decorators
from streamlint.interp.library import (
    devices,
    effects,
    monitors,
    polling,
    storage,
    stream_values,
    tensor_methods,
    tensors,
    thread_local,
    threads,
    torch_modules,
    used_as,
    weakly,
)
from streamlint.interp.python import fields, given_objects, set_before, variables
from streamlint.interp.state import arguments, elements, giving_up, lifetime, names, naming, symbols
from streamlint.interp.state.ends import PathEnds
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    CallbackV,
    ClassV,
    ConstV,
    ContextKind,
    ContextV,
    DeviceV,
    EventV,
    Flavor,
    FuncV,
    GraphV,
    HeapObject,
    HeapV,
    MethodV,
    ModuleV,
    PartialV,
    QueryV,
    Shape,
    StreamV,
    SymV,
    Value,
    symbol_of,
)
from streamlint.models import host, members, python
from streamlint.models.autograd import FORWARD
from streamlint.models.cuda_runtime import SUCCESS_NAMES
from streamlint.models.schema import Role
from streamlint.models.torch import (
    GIVES_OF_MODULE,
    MODULE_HOOKS,
    MODULE_RETURNS_SELF,
    MODULE_STATE,
    MODULE_TREE,
    SEQUENCE,
)
from streamlint.trace import Evidence

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.models.schema import Lib
    from streamlint.source import Span

_OF_LAYERS = MODULE_RETURNS_SELF | MODULE_HOOKS | GIVES_OF_MODULE | MODULE_TREE.keys() | {MODULE_STATE}


def attribute(m: Machine, value: Value, name: str, span: Span) -> Value:
    """``value.name``"""
    value = thread_local.of_lane(m, given_objects.settled(m, names.settle(m, value), name))
    match value:
        case ApiV(path):
            return api_attribute(m, path, name)
        case ModuleV(module):
            return _module_attribute(m, module, name)
        case HeapV() if m.heap[value.id].shape is Shape.INSTANCE:
            return _instance_attribute(m, value, name, span)
        case ClassV(decl):
            return _class_attribute(m, decl, name)
        case StreamV(_, lib):
            if lib is not None and name in models.BY_LIB[lib].raw_handles:
                return StreamV(value.id, lib, raw=True)
            if value.raw and name == "value":
                # A handle that ctypes wraps, as Numba's do.
                return value
            if name == "device":
                return devices.meant(m, value)
            return _read_row(m, Role.STREAM, lib, value, name, span)
        case EventV(_, lib):
            if lib is not None and name in models.BY_LIB[lib].raw_handles:
                # context.set_input_consumed_event(consumed.ptr) means the event.
                return value
            return _read_row(m, Role.EVENT, lib, value, name, span)
        case DeviceV() if (known := devices.attribute(value, name)) is not None:
            return known
        case DeviceV():
            return _read_row(m, Role.DEVICE, None, value, name, span)
        case BufferV():
            return tensor_methods.attribute(m, value, name, span)
        case SymV() if name in models.RAW_HANDLES and stream_values.is_shown(m, value, Role.STREAM):
            # With a parameter `stream: cp.cuda.Stream`, allReduce(..., stream.ptr) uses that one.
            return replace(stream_values.as_stream(m, value, span, models.RAW_HANDLES[name]), raw=True)
        case SymV(computes=function) if function and name in _OF_LAYERS:
            return MethodV(value, name)
        case SymV(symbol) if name in MODULE_TREE and m.makers.get(symbol) == SEQUENCE:
            return MethodV(value, name)
        case SymV() if name in models.ALIKE_IN_C:
            return ApiV(models.ALIKE_IN_C[name])
        case SymV() if name == weakly.ALIVE and weakly.is_finalizer(m, value):
            return weakly.is_alive(m, value)
        case SymV(of, holds):
            symbol = given_objects.member(m, of, name)
            stored = m.roles.get(symbol)
            return stored if stored is not None else SymV(symbol, holds)
        case QueryV(status=True) | ConstV(int()) if name == "value":
            # CUstream_flags.CU_STREAM_NON_BLOCKING.value: what is known of it is its number already.
            return value
        case PartialV() if name == "func":
            return value.func
        case CallbackV() if name in host.ADDRESS_OF_CALLBACK:
            return replace(value, address=True)
        case ContextV(ContextKind.CAPTURE, graph=GraphV() as graph) if name == "graph":
            # What ScopedCapture of Warp has made when its block was left.
            return graph
        case FuncV() | PartialV() | CallbackV() if name in host.OF_CALLBACK:
            # A ctypes wrapper of a callback, as cast(callback, c_void_p) gives it.
            return value
        case FuncV() if (kept := m.roles.get(symbols.Attr(symbol_of(value), name))) is not None:
            return kept
        case _:
            m.uses_none |= value == NONE
            if value == NONE and (name in models.RAW_HANDLES or m.left_none == m.steps):
                # self.side.wait_stream(stream), where nobody has set a stream: that raises an error. What is
                # behind it runs where somebody has.
                raise PathEnds
            return MethodV(value, name)


def attribute_by_name(m: Machine, value: Value, name: str, default: list[Value], span: Span) -> Value:
    """``getattr(options, "non_blocking", True)``: a flag that is set unless somebody says otherwise.

    ``getattr(param, "weight_loader", load_whole)``: what others have put there is not known, the usual
    function is.
    """
    found = attribute(m, value, name, span)
    match found, default:
        case SymV(symbol), [ConstV(True)]:
            m.usual.add(symbol)
        case SymV(symbol), [FuncV() as usual] if symbol not in m.roles:
            return _usual(m, symbol, name, usual)
        case MethodV(BufferV() as view), [FuncV() as usual] if not members.is_tensor_method(name):
            return _usual(m, symbols.Attr(symbol_of(view), name), name, usual)
        case _:
            pass
    return found


def _usual(m: Machine, symbol: symbols.Symbol, name: str, usual: FuncV) -> FuncV:
    key = symbols.call("getattr", symbol)
    m.oracle.choose(key, f"nobody has set {name}", options=1, relevant=False)
    return usual


def _read_row(m: Machine, role: Role, lib: Lib | None, value: Value, name: str, span: Span) -> Value:
    """``stream.done``, ``device.default_stream``: rows that are read like attributes."""
    row = models.find_method(role, lib, name)
    if row is not None and row[1].attribute:
        return effects.apply(m, row[0], row[1], value, [], {}, span)
    return MethodV(value, name)


def api_attribute(m: Machine, path: str, name: str) -> Value:
    dotted = f"{path}.{name}"
    if name == "value" and path.endswith(SUCCESS_NAMES):
        return ConstV(0)
    constant = _constant(path, name)
    if constant is not None:
        return constant
    return m.project.path(dotted)


def _constant(path: str, name: str) -> Value | None:
    from streamlint.models.cuda_runtime import CONSTANTS

    if name in CONSTANTS and path.startswith("cuda"):
        return ConstV(CONSTANTS[name])
    number = models.NUMBERS.get(f"{path}.{name}")
    return None if number is None else ConstV(number)


def _module_attribute(m: Machine, module: str, name: str) -> Value:
    found = m.project.path(f"{module}.{name}")
    if isinstance(found, ApiV) and models.find_function(found.path) is None:
        return m.python.module_name(m, module, name)
    return found


def _instance_attribute(m: Machine, value: HeapV, name: str, span: Span) -> Value:
    held = m.heap[value.id]
    if name in held.attrs:
        if name in held.told:
            monitors.see(m, held, name, span)
        if name in held.chosen and m.frame.touches and not m.constructing:
            m.oracle.asked_again(held.chosen[name])
        found = names.settle(m, held.attrs[name])
        polling.asks(m, value, name, found)
        if isinstance(found, HeapV) and held.cls is not None:
            inside = m.heap[found.id]
            if inside.shape is Shape.DICT and not inside.entries:
                variables.add_stream_elements(m, value, held.cls, name, inside)
            variables.add_sample(m, m.project.ancestors(held.cls)[0], name, inside)
        elif held.attrs[name] == NONE and held.cls is not None:
            found = _set_since(m, value, held.cls, name)
            if found == NONE and set_before.by_methods(m, held.cls, name):
                m.left_none = m.steps
        return found
    if held.cls is None:
        waited = threads.is_thread(m, value) or value.id in m.monitors
        return MethodV(value, name) if waited else SymV(symbols.Attr(m.symbol_of_object(value), name))
    if name == "__class__":
        return ClassV(held.cls)
    if name == "__dict__" and held.attrs:
        return fields.table(m, value)
    member = classes.lookup(m, held.cls, name)
    if isinstance(member, FuncV):
        bound = classes.bound(m, value, member)
        return m.python.call(m, bound, [], {}, span) if decorators.is_property(member.function) else bound
    if member is not None and not classes.is_set_by_keyword(m, held.cls, name, member):
        return member
    if threads.is_method(m, value, name) or torch_modules.inherits(m, value, name):
        return MethodV(value, name)
    if name in python.OF_MAPPINGS and classes.is_mapping(m, value):
        return MethodV(value, name)
    if name in python.OF_NAMED_TUPLES and classes.dataclass_fields(m, held.cls) is not None:
        return MethodV(value, name)
    held.attrs[name] = unknown_attribute(m, value, name)
    made = variables.stream_attribute(m, value, held.cls, name)
    if made is not None:
        held.attrs[name] = made
        naming.rename(m, made, f"self.{name}")
    return held.attrs[name]


def _set_since(m: Machine, made: HeapV, cls: ir.ClassDecl, name: str) -> Value:
    """What a constructor has left ``None``: what others have put there since, or nothing.

    Not for an argument that the path has taken to be ``None``.
    """
    given = variables.given_by_others(m, made, cls, name) if not m.constructing else NONE
    if given != NONE:
        return given
    if (
        set_before.is_set(m, made, cls, name)
        or (not m.constructing and set_before.by_others(m, cls, name))
        or set_before.is_set_up(m, made, cls, name)
    ):
        m.heap[made.id].attrs[name] = unknown_attribute(m, made, name)
    return m.heap[made.id].attrs[name]


def unknown_attribute(m: Machine, value: HeapV, name: str) -> SymV:
    symbol, cls = symbols.Attr(m.symbol_of_object(value), name), m.heap[value.id].cls
    if cls is not None:
        m.owners[symbol] = (cls, name)
    return SymV(symbol)


def _class_attribute(m: Machine, decl: ir.ClassDecl, name: str) -> Value:
    changed = m.globals.get((f"{decl.module}:{decl.qualname}", name))
    if changed is not None:
        return changed
    found = classes.lookup(m, decl, name)
    if isinstance(found, FuncV) and decorators.is_of_class(found.function):
        return FuncV(found.function, found.closure, ClassV(decl))
    if found is None and name == "apply" and classes.lookup(m, decl, FORWARD) is not None:
        # A subclass of torch.autograd.Function: Copy.apply(...) runs Copy.forward.
        return MethodV(ClassV(decl), name)
    return found if found is not None else SymV(symbols.Attr(symbols.Name(decl.qualname), name))


def iterated(m: Machine, value: Value, span: Span) -> Value:
    """What ``for x in value`` walks: the generator or the iterator that ``__iter__`` gives."""
    value = given_objects.settled(m, names.settle(m, value))
    if not isinstance(value, HeapV) or m.heap[value.id].shape is not Shape.INSTANCE:
        used_as.shows(m, value, used_as.Use.SEQUENCE)
        return value
    begin = classes.method(m, value, "__iter__")
    return names.settle(m, m.python.call(m, begin, [], {}, span)) if begin is not None else value


def following(m: Machine, value: Value) -> Value | None:
    """``__next__`` of an iterator of the analyzed tree, and what ``iter(queue.get, None)`` calls."""
    if not isinstance(value, HeapV):
        return None
    held = m.heap[value.id]
    if held.role == python.CALLED_AGAIN:
        return held.items[0]
    return classes.method(m, value, "__next__") if held.shape is Shape.INSTANCE else None


def stepped(m: Machine, source: Value, step: Value, span: Span) -> Value | None:
    """What ``step``, the ``following`` of an iterator, gives next; None where that has come to its end."""
    try:
        item = m.python.call(m, step, [], {}, span)
    except PathEnds:
        # StopIteration
        return None
    return None if is_end(m, source, item) else item


def told_by_class(m: Machine, value: Value, names_of: tuple[str, ...], span: Span) -> Value | None:
    """What the first of some special methods says of an object, if its class has any: ``len(self.ring)``."""
    if not isinstance(value, HeapV) or m.heap[value.id].shape is not Shape.INSTANCE:
        return None
    found = (classes.method(m, value, name) for name in names_of)
    asked = next((each for each in found if each is not None), None)
    return m.python.call(m, asked, [], {}, span) if asked is not None else None


def is_end(m: Machine, value: Value, item: Value) -> bool:
    """Whether what was called again has given what ends the loop: ``None`` of ``iter(queue.get, None)``."""
    held = m.heap[value.id] if isinstance(value, HeapV) else None
    return held is not None and held.role == python.CALLED_AGAIN and held.items[1] == item


def set_attribute(m: Machine, value: Value, name: str, new: Value, span: Span) -> None:
    """``value.name = new``"""
    value = thread_local.of_lane(m, given_objects.settled(m, names.settle(m, value)))
    if isinstance(new, StreamV):
        holder = m.symbol_of_object(value) if isinstance(value, HeapV) else symbol_of(value)
        if arguments.passed(holder) is not None:
            # ``controller.fence = self.lane``: whoever has the controller knows the stream.
            m.streams[new.id] = replace(m.streams[new.id], handed=True)
    match value:
        case HeapV() if m.heap[value.id].shape is Shape.INSTANCE:
            held = m.heap[value.id]
            setter = _setter(m, held.cls, name)
            if setter is not None:
                m.python.call(m, FuncV(setter, None, value), [new], {}, span)
                return
            monitors.set_aside(m, held, name, new, span)
            giving_up.replaced(m, held.attrs.get(name), new)
            held.attrs[name] = new
            _note_choice(m, held, name, new)
            naming.rename(m, new, f"self.{name}" if m.frame.receiver == value else name)
            if m.polling:
                threads.set_number(m, value, name, span)
        case ClassV(decl):
            m.set_global(f"{decl.module}:{decl.qualname}", name, new)
            naming.rename(m, new, f"cls.{name}" if m.frame.receiver == value else f"{decl.name}.{name}")
        case ModuleV(module):
            m.set_global(module, name, new)
        case BufferV() if name == "data" and (given := _data_of(m, value, new)) is not None:
            giving_up.assign_data(m, value, given)
        case BufferV() if elements.selector_of(symbols.EACH) in value.region:
            # for name, p in layer.named_parameters(): p.data = page. The next one is another tensor.
            pass
        case BufferV(flavor=Flavor.ARRAY) if name in host.CTYPES_VALUES:
            # As in ctypes.c_float.from_address(page).value = 2.0.
            tensors.write_on_host(m, value, span, name)
        case BufferV():
            _replace(m, storage.place_of(value, name), new)
        case SymV(of) if name == "data" and isinstance(new, BufferV):
            storage.keep_data(m, of)
            giving_up.assign_data_of(m, of, new)
        case SymV(of):
            m.attributed.setdefault(name, {})[of] = None
            _replace(m, symbols.Attr(of, name), new)
        case FuncV():
            # launch.stream = cp.cuda.Stream(): a function keeps what is to be there in its next call.
            m.roles[symbols.Attr(symbol_of(value), name)] = new
        case _:
            pass


def _data_of(m: Machine, tensor: BufferV, new: Value) -> BufferV | None:
    """The memory that a tensor gets: of what is given only this may show that it is a tensor.

    ``made = torch.empty(1, device=x.device)``, ``made.data = x.data``: both are one memory from now on.
    """
    if not lifetime.is_of_a_tensor(m, tensor):
        return None
    match names.settle(m, new):
        case BufferV() as given:
            return given
        case SymV() as given if tensor.flavor is Flavor.TORCH:
            return tensors.as_buffer(m, given, kind=Evidence.INFERRED)
        case _:
            return None


def _note_choice(m: Machine, held: HeapObject, name: str, new: Value) -> None:
    """``self.mode = Mode.PAIR if config.gpus > 1 else Mode.ONE`` of a constructor, and what it asked for it.

    What ``self.mode`` is asks the same again, in the methods.
    """
    tests = [key for frame in m.frames for key in frame.under] if m.constructing else []
    tests += m.asked_by_constructor()
    if tests and isinstance(new, ConstV):
        held.chosen[name] = tuple(tests)
    else:
        held.chosen.pop(name, None)


def _replace(m: Machine, symbol: symbols.Attr, new: Value) -> None:
    """``p.grad = None`` lets go of the gradient that ``p`` had; other values may be held elsewhere."""
    old = m.roles.get(symbol) or storage.held_gradient(m, symbol)
    m.roles[symbol] = new
    if symbol.name == "grad" and old != new:
        giving_up.give_up(m, old)


def _setter(m: Machine, cls: ir.ClassDecl | None, name: str) -> ir.FunctionDecl | None:
    if cls is None:
        return None
    for ancestor in m.project.ancestors(cls)[0]:
        if name in ancestor.setters:
            return ancestor.setters[name]
    return None
