"""Python's own functions, numpy and ctypes, as far as they touch memory or make containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir, models
from streamlint.frozen import replace
from streamlint.interp.facts import answers
from streamlint.interp.library import (
    callbacks,
    feeding,
    host_arrays,
    monitors,
    tensors,
    thread_local,
    threads,
    weakly,
)
from streamlint.interp.python import (
    built,
    conditions,
    container_methods,
    containers,
    executors,
    fields,
    instances,
    iterators,
    kinds,
    objects,
    text,
)
from streamlint.interp.state import arguments, elements, emptied, names, strides, symbols
from streamlint.interp.state.ends import PathEnds
from streamlint.interp.state.values import (
    FALSE,
    NONE,
    ApiV,
    BufferV,
    CallbackV,
    ConstV,
    ContextKind,
    ContextV,
    DeviceV,
    EventV,
    Flavor,
    GeneratorV,
    HeapV,
    PartialV,
    QueryV,
    Shape,
    StreamV,
    SymV,
    TupleV,
    Value,
    given_by,
    symbol_of,
)
from streamlint.models import host, python
from streamlint.models.classes import PARAMETERS
from streamlint.models.cuda_driver import HANDLE_TYPES
from streamlint.models.schema import NewEvent, NewStream
from streamlint.trace import MonitorKind, Origin, Space

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def call(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value | None:
    """Calls an outside function that is known here; None if it is not."""
    args = [names.settle(m, a) for a in args]
    for kind in (_of_threads, _of_contexts, _of_handles, _of_objects, _of_host_memory):
        if (answer := kind(m, path, args, kwargs, span)) is not None:
            return answer
    if "." not in path or path.startswith(python.COMPUTING):
        return _builtin(m, path.rpartition(".")[2], args, kwargs, span)
    if path == "random.choice" and args:
        return containers.index(m, args[0], m.fresh("choice", span), span)
    if path == weakly.FINALIZE and len(args) > 1:
        return weakly.finalizer(m, args, kwargs, span)
    if path == "weakref.ref" and args:
        return weakly.referring(m, args[0], span)
    return m.result(path, span) if path.startswith(python.TOLD_TO_OTHERS) else None


def _of_threads(
    m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """Threads, what each has for itself, and what they wait for; modules imported by a text."""
    if (thread := threads.made(m, path, args, kwargs, span)) is not None:
        return thread
    if (waited := executors.of_module(m, path, args, kwargs, span)) is not None:
        return waited
    if path == thread_local.PATH:
        return thread_local.make(m)
    if path.startswith("asyncio."):
        given = threads.of_asyncio(m, path.rpartition(".")[2], args, kwargs, span)
        if given is not None:
            return given
    if path in host.IMPORTS and args and isinstance(args[0], ConstV) and isinstance(args[0].value, str):
        return m.project.path(args[0].value)
    return monitors.make(m, path, args, kwargs, span)


def _of_contexts(
    m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    last = path.rpartition(".")[2]
    if last in python.NULL_CONTEXTS:
        return ContextV(ContextKind.NULL, args[0] if args else NONE)
    if path == "contextlib.closing" and args:
        return ContextV(ContextKind.CLOSING, args[0])
    if last in python.EXIT_STACKS:
        return ContextV(ContextKind.STACK, m.fresh(last, span))
    if path == "functools.partial" and args:
        return PartialV(args[0], tuple(args[1:]), kwargs)
    return None


def _of_handles(
    m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """Prototypes of callbacks, and what gives an address, a handle or an object once more."""
    last = path.rpartition(".")[2]
    if path in host.PROTOTYPE_MAKERS:
        return ApiV(host.PROTOTYPE)
    if path == host.PROTOTYPE:
        return callbacks.wrap(m, args[0]) if args else NONE
    if path == "copy.copy" and args and (copied := container_methods.copied(m, args[0])) is not None:
        return copied
    if path in host.TRANSPARENT and not (args or kwargs):
        # ctypes.c_void_p(): what a call is to write an address into.
        return m.fresh(last, span)
    if path in host.TRANSPARENT or last in HANDLE_TYPES:
        return _transparent(args, kwargs)
    if path in PARAMETERS and args and _is_on_device(m, args[0]):
        return args[0]
    if path in host.HOLDS_ADDRESS and len(args) == 1 and _is_address(args[0]):
        return args[0]
    if path in host.SAYS_TYPE and len(args) == 2 and _is_order(args):
        return args[1]
    return None


def _of_objects(
    m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """Fields, queues and namespaces."""
    if args and (told := fields.of_function(m, path, args[0], kwargs, span)) is not None:
        return told
    last = path.rpartition(".")[2]
    if path in host.QUEUES:
        made = feeding.bounded(m, m.new_list((), kind=last), args, kwargs)
        monitors.watch(m, made, MonitorKind.QUEUE, span, count=feeding.size(m, made))
        return made
    if path in python.NAMESPACES and not args:
        made = m.new_object(Shape.INSTANCE, symbol=symbols.Thing(last, len(m.heap)))
        for name, value in kwargs.items():
            objects.set_attribute(m, made, name, value, span)
        return made
    return None


def _of_host_memory(
    m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """Arrays of NumPy and of ctypes."""
    last = path.rpartition(".")[2]
    if path == "ctypes.sizeof":
        return given_by("sizeof", *args)
    if path in host.SPLITS and (parts := host_arrays.split(m, args)) is not None:
        return parts
    if path in host.ASKS_FORM:
        return given_by(last, *args)
    if path in host.VIEW_FUNCTIONS or (path in host.MAY_COPY and kwargs.get("copy") in (FALSE, NONE)):
        return host_arrays.view(m, path, args, kwargs, span)
    if path in host.ALLOCATORS and "out" not in kwargs:
        return host_arrays.allocate(m, last, args, span)
    if path in host.MEMORY_FUNCTIONS:
        return host_arrays.copied(m, path, args, kwargs, span)
    if path.startswith("numpy.") or (path.startswith("ctypes.") and not path.startswith("ctypes.c_")):
        return host_arrays.function(m, path, args, kwargs, span)
    return None


def _is_order(args: list[Value]) -> bool:
    """Whether a cast is of a stream or an event, by its type or by its value; others are not followed."""
    match args:
        case [ApiV(path), _] if (row := models.find_function(path)) is not None:
            return row[1].has(NewStream, NewEvent)
        case [_, StreamV() | EventV()]:
            return True
        case _:
            return False


def _transparent(args: list[Value], kwargs: dict[str, Value]) -> Value:
    for value in (*args, *kwargs.values()):
        if isinstance(value, CallbackV):
            # cudaHostFn_t(address) is an address too.
            return replace(value, address=True)
        if not isinstance(value, ConstV):
            return value
    return args[0] if args else NONE


def _is_on_device(m: Machine, value: Value) -> bool:
    """Whether a parameter made of it stays its memory: ``net.cuda()`` moves those that are on the host."""
    return isinstance(value, BufferV) and m.buffers[value.id].space is Space.DEVICE


def _is_address(value: Value) -> bool:
    return isinstance(value, BufferV) and value.flavor is Flavor.POINTER


def _builtin(m: Machine, name: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value | None:
    return (
        built.made(m, name, args, kwargs, span)
        or _of_members(m, name, args, span)
        or _of_values(m, name, args, kwargs, span)
        or (m.result(name, span) if name in python.TOUCHES_NOTHING else None)
    )


def _of_members(m: Machine, name: str, args: list[Value], span: Span) -> Value | None:
    """``getattr(module, name)``, ``vars(options)``, ``hasattr(x, name)`` and their kin."""
    first, *others = args or [NONE]
    match name, others:
        case "getattr", [asked, default] if thread_local.lacks(m, first, asked):
            return default
        case "getattr", [ConstV(str() as asked), *default]:
            return objects.attribute_by_name(m, first, asked, default, span)
        case (("getattr" | "vars"), _) if isinstance(first, BufferV):
            # A field of a batch, whichever: it stands for all that there is.
            return first
        case "getattr", _ if first == ApiV("torch"):
            # getattr(torch, self.device): a device module chosen by name.
            return ApiV("torch.cuda")
        case "getattr", [asked] if isinstance(first, SymV) and isinstance(asked, SymV):
            # ``for part in path.split("."): module = getattr(module, part)``: the same each time.
            return SymV(symbols.Item(symbols.Attr(first.symbol, "__dict__"), symbol_of(asked)))
        case "vars", _ if isinstance(first, HeapV) and m.heap[first.id].attrs:
            return fields.table(m, first)
        case (("getattr" | "vars"), _):
            # One of all that there is, which is not known; what is taken out of that is held by who takes it.
            return m.fresh(name, span, tuple(elements.parts(m, first)))
        case "setattr", [ConstV(str() as asked), value, *_]:
            objects.set_attribute(m, first, asked, value, span)
            return NONE
        case "hasattr", _:
            return instances.has(m, first, others[0] if others else NONE)
        case "isinstance", _:
            return kinds.isinstance_of(m, args)
        case "type", []:
            return kinds.type_of(m, first)
        case _:
            return None


def _of_values(
    m: Machine, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """What computes a number, a text or an answer of what it is given, or of the elements of that."""
    first = args[0] if args else NONE
    match name:
        case "len":
            items = elements.listed(m, first)
            if isinstance(first, HeapV):
                m.heap[first.id].counted = True
            if (
                items is not None
                and not _may_be_one(m, first, items)
                and not any(map(arguments.is_rest, items))
            ):
                return ConstV(len(items))
            told = objects.told_by_class(m, first, python.TELLS_SIZE, span)
            if told is None and items is not None and isinstance(first, HeapV):
                # before = len(seen); seen.add(x): that may be one more.
                return SymV(symbols.call("len", symbol_of(first), symbols.constant(len(items))))
            return told or text.converted(name, args) or SymV(emptied.length(m, symbol_of(first)))
        case "next":
            return iterators.following(m, first, args[1:], span)
        case "divmod" if len(args) == 2:
            return TupleV((_arith("//", args), _arith("%", args)))
        case "print" | "str" | "repr" | "format" | "bytes":
            for view in tensors.buffers_in(m, args, unknown=False):
                tensors.read_on_host(m, view, span, f"{name}()")
            return text.converted(name, args) or _text(m, name, args, span)
        case "ord" | "chr" | "hex" | "bin" if (known := text.converted(name, args)) is not None:
            return known
        case "min" | "max" if "key" in kwargs and len(args) == 1:
            return containers.index(m, first, m.fresh(name, span), span)
        case "all" | "any" if queries := _queries(m, first):
            stop = name == "any"
            done = (conditions.truth(m, query, ir.Const(span, value=True)) for query in queries)
            return ConstV(stop if any(answer == stop for answer in done) else not stop)
        case "all" | "any" if (answer := _known_of_all(m, name, first)) is not None:
            return ConstV(answer)
        case "float" | "int" | "bool" | "complex" | "abs" | "sum" | "max" | "min" | "any" | "all" | "round":
            nearest = strides.nearest(m, args) if name == "min" else None
            return nearest or text.converted(name, args) or _number(m, name, args, span)
        case "id" | "hash":
            # events[id(tensor)]: the same thing has the same key.
            return given_by(name, first)
        case "exit" | "quit":
            raise PathEnds
        case _:
            return None


def _may_be_one(m: Machine, value: Value, keys: list[Value]) -> bool:
    """Whether a dict or set has several addresses of memory that came from outside: they may be one.

    ``owners[x.untyped_storage().data_ptr()] = x`` for each ``x``, and ``if len(owners) != 1: raise ...``. So
    may all that is unknown in a set: ``devices.add(rows.device)``.
    """
    held = m.heap[value.id] if isinstance(value, HeapV) else None
    if held is None or held.shape not in (Shape.DICT, Shape.SET):
        return False
    if held.shape is Shape.SET and len(keys) > 1 and any(map(_is_unknown, keys)):
        return True
    addresses = (key.id for key in keys if isinstance(key, BufferV) and key.flavor is Flavor.POINTER)
    return sum(m.buffers[number].origin is not Origin.ALLOCATED for number in addresses) > 1


def _is_unknown(value: Value) -> bool:
    return isinstance(value, SymV) or (isinstance(value, DeviceV) and value.id.startswith("?"))


def _arith(op: str, args: list[Value]) -> Value:
    match args:
        case [ConstV(int() as a), ConstV(int() as b)] if b:
            return ConstV(a // b if op == "//" else a % b)
        case _:
            return SymV(symbols.Binary(op, symbol_of(args[0]), symbol_of(args[1])))


def _text(m: Machine, name: str, args: list[Value], span: Span) -> Value:
    match args:
        case [DeviceV(device)] if name == "str" and not device.startswith("?"):
            return ConstV("cpu" if device == "cpu" else "cuda")
        case [StreamV() as handle, *_]:
            # str(stream.cuda_stream), as options of a session take it.
            return SymV(given_by(name, handle).symbol, (handle,))
        case [other, *_]:
            return given_by(name, other)
        case _:
            return m.fresh(name, span)


def _queries(m: Machine, value: Value) -> list[QueryV]:
    """What ``all(event.query() for event in events)`` asks."""
    held = m.heap[value.id] if isinstance(value, HeapV) else None
    if held is None:
        return []
    items = [*held.items, *held.extra.values(), *([held.sample] if held.sample is not None else [])]
    return list(dict.fromkeys(item for item in items if isinstance(item, QueryV)))


def _known_of_all(m: Machine, name: str, value: Value) -> bool | None:
    """``any(hasattr(x, "__cuda_array_interface__") for x in frames)``, where the elements answer it."""
    items = elements.listed(m, value)
    known = [answers.constant(m, item) for item in items or ()]
    stop = name == "any"
    if stop in known:
        return stop
    return None if items is None or None in known else not stop


def _number(m: Machine, name: str, args: list[Value], span: Span) -> Value:
    first = args[0] if args else NONE
    views = tensors.buffers_in(m, args, unknown=False)
    if views and all(view.flavor is Flavor.POINTER for view in views):
        return first
    if views and name in ("sum", "abs"):
        # sum(table(i) for table in tables) adds tensors with `+`, which asks no value; max() compares them.
        return tensors.operate(m, span, "operator +" if name == "sum" else name, args)
    for view in views:
        tensors.read_on_host(m, view, span, f"{name}()")
    if len(args) == 1 and isinstance(first, ConstV) and name in ("int", "bool", "float"):
        return m.fresh(name, span)
    computed = isinstance(first, SymV) and first.symbol in m.guesses
    if name == "int" and not isinstance(first, (ConstV, BufferV)) and len(args) == 1 and not computed:
        return first
    numbers = [a.value for a in args if isinstance(a, ConstV) and isinstance(a.value, (int, float))]
    if name in ("max", "min") and len(numbers) == len(args) > 1:
        return ConstV(max(numbers) if name == "max" else min(numbers))
    if name in ("any", "all", "sum", "max", "min") and isinstance(first, GeneratorV):
        built.drained(m, first, span)
    return given_by(name, *args)
