"""Calls that cannot be followed: what they may read, produce, launch and order."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from streamlint.interp.facts import classes, makers
from streamlint.interp.library import devices, escape, graphs, processes, tensors, weakly
from streamlint.interp.state import lifetime, names, spelling, symbols
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    CallbackV,
    ConstV,
    DeviceV,
    Flavor,
    GraphV,
    HeapV,
    StreamV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.models import cuda_driver, cuda_runtime, host, python, readers, vocabulary
from streamlint.models import torch as torch_model
from streamlint.models.schema import Lib
from streamlint.trace import (
    Access,
    Alloc,
    Copy,
    CudaCall,
    Doubt,
    HandOff,
    HostAccess,
    Launch,
    Mode,
    Origin,
    Space,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span
    from streamlint.trace import BufferId


_ASSUMED = frozenset({Doubt.OPAQUE})


def opaque(
    m: Machine,
    function: str | Symbol,
    args: list[Value],
    kwargs: dict[str, Value],
    span: Span,
    holds: tuple[Value, ...] = (),
    *,
    of_python: bool = False,
) -> Value:
    """A call that cannot be followed.

    It reads the tensors that it is given and produces its result on the current stream. Streams and
    events that it receives escape: it may order them. A call whose name says that it only keeps its
    arguments (``queue.put``, ``list.append``, ``Batch(x)``) reads nothing. ``of_python``: a function of
    Python's own library, which works on no tensors but those that are known to be some
    (``os.path.exists(path)``).
    """
    name = function if isinstance(function, str) else symbols.text_of(function)
    last = name.rpartition(".")[2]
    if _signals(last) or (last == "barrier" and _made_by(m, function) == torch_model.SHARED_MEMORY):
        escape.barrier(m, escape.all_streams(m), span, name, Doubt.SIGNAL)
    values = [names.settle(m, value) for value in (*args, *kwargs.values(), *_spread(m, span))]
    weakly.given_away(m, values)
    # engine.step(): it may let go of gradients.
    m.accumulated.clear()
    made_by = function if isinstance(function, str) else _made_by(m, function) or processes.maker(m, function)
    processes.note(m, last, made_by, values, span)
    handed = _handed_through(m, last, values, span)
    if handed is not None:
        return handed
    filled = values if last in host.FILLS else _filled_by_reader(m, function, args, kwargs)
    written = tensors.buffers_in(m, filled, unknown=False)
    for view in written:
        tensors.write_on_host(m, view, span, last)
    if last in host.FILLS:
        return m.result(function, span)
    views = tensors.buffers_in(m, values, unknown=not of_python, data=not of_python)
    if written:
        # cv2.resize(page, size, dst=small): what it writes it does not read.
        views = [view for view in views if view not in written]
    # moe.task(page.data_ptr(), n): who gets an address keeps nothing alive.
    lifetime.escapes(m, (view for view in views if not view.bare), span)
    if last == "set_result" and views:
        # torch.futures.Future: who asks for the result waits for an event of the future's.
        escape.recorded_behind(m, span)
    if _is_read_at_once(m, function, views):
        # accuracy_score(labels, page): what nothing is known of is on the host as well, or it would fail.
        for view in views:
            if m.space(view).on_host:
                tensors.read_on_host(m, view, span, last)
        return m.result(function, span)
    callbacks = [value for value in values if isinstance(value, CallbackV) and not value.address]
    lifetime.escapes(m, callbacks, span)
    if processes.starts(last, made_by):
        return _keeping(m, function, list(views), span)
    launched = _launched(m, values, views)
    if not launched:
        handles = all(m.space(view).on_host for view in views)
        told = spelling.called(m, span) or name
        kept = _is_put_into_attribute(function)
        escape.through(m, [*values, *holds], span, told, handles=handles, records=not kept)
    for_effect = _is_made_for_effect(m, function, of_python=of_python)
    if for_effect and not values and (made := _inherited_by(m, function)) is not None:
        # self._synchronize() of a base class out of sight: it has the object's streams.
        escape.through(m, [made], span, last)
    if not views and (for_effect or _may_wait(function)):
        m.unseen.append(len(m.ops))
    registered = _is_registered(m, function)
    if not views or (not registered and _keeps(m, last, values, launched=bool(launched))):
        return _keeping(m, function, [*values, *holds], span)
    if launched:
        return _takes_pointers(m, name, values, launched, span)
    return _works_on(m, function, last, values, views, span, registered=registered)


def _handed_through(m: Machine, last: str, values: list[Value], span: Span) -> Value | None:
    """What a call hands out that checks a status, or makes a capsule."""
    unwrapped = _status_check(values)
    if unwrapped is not None:
        return unwrapped
    if last in vocabulary.MAKES_CURRENT or any(isinstance(value, DeviceV) for value in values):
        devices.may_be_selected(m)
    capsule = _capsule(last, values)
    if capsule is None:
        return None
    # Whoever takes it holds the memory until its own work is done.
    lifetime.escapes(m, [capsule], span)
    return BufferV(capsule.id, capsule.region, Flavor.OPAQUE)


def _is_read_at_once(m: Machine, function: str | Symbol, views: list[BufferV]) -> bool:
    """Whether the host reads what it gets, and nothing of that is on a device."""
    on_host = any(m.space(view).on_host for view in views)
    return on_host and _reads_at_once(m, function) and not any(_is_on_device(m, view) for view in views)


def _keeps(m: Machine, last: str, values: list[Value], *, launched: bool) -> bool:
    """Whether it only keeps what it is given.

    ``comm.send(x.data.ptr, n, dtype, peer, stream.ptr)``: who gets an address and a handle launches work.
    """
    keeps = last in host.HANDOFF_METHODS or _is_class(last) or _is_getter(m, last, values)
    return keeps and not (launched and any(isinstance(value, StreamV) and value.raw for value in values))


def _is_put_into_attribute(function: str | Symbol) -> bool:
    """``context.events.append(event)``: who records it then, gets at it by that name."""
    match function:
        case symbols.Attr(symbols.Attr() | symbols.Item(symbols.Attr()), name):
            return name in python.CONTAINER_METHODS
        case _:
            return False


def _keeping(m: Machine, function: str | Symbol, held: list[Value], span: Span) -> Value:
    kept = tuple(value for value in held if not isinstance(value, ConstV))
    result = m.result(function, span, kept)
    if function in host.COPIES and kept:
        m.named_like[result.symbol] = symbol_of(kept[0])
    return result


def _works_on(
    m: Machine,
    function: str | Symbol,
    last: str,
    values: list[Value],
    views: list[BufferV],
    span: Span,
    *,
    registered: bool,
) -> Value:
    """The host reads arrays of its own; else it is work on the current stream."""
    if all(m.space(view).on_host and view.flavor is Flavor.ARRAY for view in views):
        for view in views:
            tensors.read_on_host(m, view, span, last, opaque=True)
        return m.result(function, span)
    if escape.carries_order(m, values):
        return m.result(function, span, tuple(values))
    # self.experts[key](x): no end of a key is what it is called
    told = last if last.isidentifier() else spelling.called(m, span) or last
    if isinstance(function, str):
        fills = _filled(m, function, views)
        return tensors.opaque_work(m, told, views, span, surely=registered, fills=fills)
    guessed = _is_of_another_class(m, function)
    lifetime.computes(m, function, span)
    return tensors.opaque_work(m, told, views, span, surely=registered, guessed=guessed)


def _spread(m: Machine, span: Span) -> tuple[Value, ...]:
    """The table that a call gets by ``**``, where not all that is in it is known, but what some of it is.

    ``inputs = {k: v.to(device, non_blocking=True) for k, v in batch.items()}``, ``model(**inputs)``. What was
    moved as a whole is a table too: ``model(**processor(text).to(device))``.
    """
    match names.settle(m, m.spread[span]) if span in m.spread else NONE:
        case HeapV() | BufferV() as table:
            return (table,)
        case _:
            return ()


def _capsule(name: str, values: Sequence[Value]) -> BufferV | None:
    """The capsule that a library without a table takes: ``jax.dlpack.from_dlpack(to_dlpack(x))``.

    It gives the memory of ``x``, and orders nothing: a capsule has no stream. What offers ``__dlpack__`` is
    asked for one by the taker, who says which stream must wait.
    """
    given = [value for value in values if isinstance(value, BufferV)]
    match given:
        case [BufferV(flavor=Flavor.POINTER, bare=False) as capsule] if name == host.TAKES_CAPSULE:
            return capsule
        case _:
            return None


def _is_of_another_class(m: Machine, function: Symbol) -> bool:
    """Whether it is a method of what the path took for an object of an unseen class, though one is in sight.

    ``driver.upload(points)``, with ``class LidarDriver`` in the module that alone has ``upload``.
    """
    match function:
        case symbols.Attr(owner, _):
            return m.oracle.memo.get(symbols.call("class of", owner)) == 1
        case _:
            return False


def _filled(m: Machine, function: str, views: Sequence[BufferV]) -> frozenset[BufferId]:
    """What a function of another package writes: memory that nothing has used, if nobody uses its result.

    ``out = torch.empty_like(q)``, then ``ops.attention(q, out)``: it must write something, and there is
    nothing to read in that. In the next turn it fills the same again. What takes arrays of CuPy's, as
    pylibraft does, has streams of its own, and may wait for them.
    """
    if m.frame.calling is None or m.frame.calling is not m.frame.unused:
        return frozenset()
    for number in {view.id for view in views if view.flavor is Flavor.TORCH} - m.life.outputs.keys():
        if _is_untouched(m, number):
            m.life.outputs[number] = function
    return frozenset(view.id for view in views if m.life.outputs.get(view.id) == function)


def _is_untouched(m: Machine, number: BufferId) -> bool:
    """Whether the last that was done with memory of a device is to allocate it."""
    if m.buffers[number].origin is not Origin.ALLOCATED or m.buffers[number].space.on_host:
        return False
    for op in reversed(m.ops):
        match op:
            case Alloc(buffer=allocated) if allocated == number:
                return True
            case Launch(accesses=accesses) | Copy(accesses=accesses) | HostAccess(accesses=accesses) if any(
                access.buffer == number for access in accesses
            ):
                return False
            case HandOff(buffer=given) if given == number:
                return False
            case _:
                pass
    return False


def _is_made_for_effect(m: Machine, function: str | Symbol, *, of_python: bool) -> bool:
    """Whether nobody uses what a call gives: ``backend.finish()``, not ``log.info("x")`` of Python itself.

    Nor a method of what that gives: ``with open(path, "rb") as file``, and ``file.seek(first)``; nor of
    PyTorch's optimizers and modules, which order no streams: ``optimizer.zero_grad()``, ``net.train()``.
    """
    if of_python or m.frame.calling is None or m.frame.calling is not m.frame.unused:
        return False
    if _orders_nothing(m, function):
        return False
    came_from = () if isinstance(function, str) else map(symbols.function_called, _givers(function))
    return not any(path == "open" or path.partition(".")[0] in sys.stdlib_module_names for path in came_from)


def _orders_nothing(m: Machine, function: str | Symbol) -> bool:
    """Whether it is a method of an optimizer, or a module, that PyTorch itself has made here."""
    match function:
        case symbols.Attr(of, name) if name in torch_model.MAKES_NO_WAIT:
            made_by = m.makers.get(of, "")
            known = made_by.startswith(torch_model.HAVE_SUCH)
            return known and made_by not in torch_model.READS_LOSSES
        case _:
            return False


def _inherited_by(m: Machine, function: str | Symbol) -> HeapV | None:
    """The object that runs, if this is a method of it which a base class of another package has."""
    made = m.frame.receiver
    if isinstance(function, str) or not isinstance(made, HeapV) or function not in m.owners:
        return None
    cls, name = m.owners[function]
    is_own = function == symbols.Attr(m.symbol_of_object(made), name)
    return made if is_own and classes.extends_others(m.project, cls) else None


def _may_wait(function: str | Symbol) -> bool:
    """``self.room.acquire()`` of a semaphore, whose answer may be used."""
    if isinstance(function, str):
        return function.startswith(host.WAIT_FOR_OTHERS)
    came_from = map(symbols.function_called, symbols.owners(function))
    return any(path.startswith(host.WAIT_FOR_OTHERS) for path in came_from if path)


def _is_registered(m: Machine, function: str | Symbol) -> bool:
    """An operator of an extension: ``torch.ops.comm.send(x)``, or a method of what its classes give."""
    if isinstance(function, str):
        return function.startswith(torch_model.REGISTERED) and not _is_class(function.rpartition(".")[2])
    return _made_by(m, function).startswith(torch_model.REGISTERED)


def _reads_at_once(m: Machine, function: str | Symbol) -> bool:
    """A function of a library of the host, or a method of what one gave: ``open(path, "wb").write(page)``.

    What its classes are given they may keep: ``pandas.DataFrame(page)``.
    """
    if isinstance(function, str):
        keeps = _is_class(function.rpartition(".")[2]) and not readers.copies_arguments(function)
        return readers.at_once(function) and not keeps
    came_from = (m.makers.get(one) or symbols.function_called(one) for one in _givers(function))
    return any(path and readers.at_once(path) for path in came_from)


def stores_at_once(m: Machine, container: Symbol) -> bool:
    """``with h5py.File(path, "w") as file: file["rows"] = page``: what is put there is written to a file."""
    return _reads_at_once(m, symbols.Attr(container, "__setitem__"))


def _filled_by_reader(
    m: Machine, function: str | Symbol, args: list[Value], kwargs: dict[str, Value]
) -> list[Value]:
    """What a function of a library of the host, or a method of what one gave, writes.

    ``ok, _ = capture.read(page)``, ``cv2.resize(picture, size, dst=page)``.
    """
    if isinstance(function, str):
        named = [value for name, value in kwargs.items() if name in readers.results(function)]
        place = readers.result_place(function)
        return [*named, *(args[place : place + 1] if place is not None else ())]
    method = symbols.last_name(function)
    if method not in readers.FILLING_METHODS:
        return []
    givers = (m.makers.get(one) or symbols.function_called(one) for one in _givers(function))
    filled = any(giver and readers.fills_arguments(giver, method) for giver in givers)
    return [*args, *kwargs.values()] if filled else []


def _givers(function: Symbol) -> Iterator[Symbol]:
    """Whose method it is, and what gave that: ``open(path)`` of ``with open(path) as file: file.write``."""
    for one in symbols.owners(function):
        yield one
        match one:
            case symbols.Call(symbols.Name("entering"), (inner,)):
                yield inner
                yield from symbols.owners(inner)
            case symbols.Binary("/", folder, _):
                # a path that is put together: ``(Path(folder) / "page").write_bytes(page)``
                yield folder
            case _:
                pass


def _is_on_device(m: Machine, view: BufferV) -> bool:
    return m.space(view) is Space.DEVICE


def _made_by(m: Machine, function: str | Symbol) -> str:
    """The unseen function that gave the object whose method is called."""
    return "" if isinstance(function, str) else makers.of_symbol(m, function)


@lru_cache(maxsize=4_096)
def _signals(name: str) -> bool:
    """Whether a call with this name sets or waits for a flag in device memory."""
    low = name.lower()
    return any(word in low for word in torch_model.MEMORY_SIGNALS)


def _launched(m: Machine, values: list[Value], views: list[BufferV]) -> list[BufferV]:
    """The addresses that a launcher receives, if the call looks like one.

    Its memory is all addresses, or it gets exactly one stream and otherwise only addresses and
    values that nothing is known of: ``fill(pointer, count, stream)``. Beside them there may be structs
    of the host: ``lib.execute(byref(plan), x.data_ptr(), stream.cuda_stream)``.
    """
    pointers = [view for view in views if view.flavor is Flavor.POINTER]
    rest = [view for view in views if view.flavor is not Flavor.POINTER]
    if not rest or (pointers and all(view.flavor is Flavor.ARRAY and m.space(view).on_host for view in rest)):
        return pointers
    streams = sum(isinstance(value, StreamV) for value in values)
    others = all(view.flavor is Flavor.OPAQUE for view in rest)
    return pointers if streams == 1 and others else []


def _is_class(name: str) -> bool:
    """``Batch(output=x)``: a class by its spelling, whose objects keep what they are given."""
    return name[:1].isupper() and not name.isupper()


def _is_getter(m: Machine, name: str, values: list[Value]) -> bool:
    """``get_buffer(rank, shape)``: fetches or makes something, and was given no memory that is known.

    A habit of naming, where a fact is wanted: without it what ``pool.allocate(shape)`` returns is taken to be
    written on the current stream, and ``block.release()`` with ``block.tensor`` in flight to read it.
    """
    if not name.startswith(_GETTERS):
        return False
    return all(view.flavor is Flavor.OPAQUE for view in tensors.buffers_in(m, values, unknown=False))


_GETTERS = ("get_", "is_", "has_", "make_", "create_", "build_", "init_", "load_", "find_", "alloc")


def _takes_pointers(m: Machine, name: str, values: list[Value], views: list[BufferV], span: Span) -> Value:
    """A launcher: addresses and one stream make device work on that stream; addresses alone are numbers."""
    streams = [value for value in values if isinstance(value, StreamV)]
    if len(streams) == 1:
        accesses = tuple(Access(view.id, Mode.UPDATE, view.region, _ASSUMED) for view in views)
        m.emit(Launch(m.site(span), m.lane, _ASSUMED, stream=streams[0].id, accesses=accesses, name=name))
    else:
        escape.through(m, values, span, name)
    return m.result(name, span, tuple(values))


def _status_check(values: list[Value]) -> Value | None:
    """``check(cudart.cudaMalloc(n))`` with a helper from outside gives the value without the error."""
    match values:
        case [TupleV((ApiV(path), *rest))] if path.endswith(cuda_runtime.SUCCESS_NAMES):
            return NONE if not rest else rest[0] if len(rest) == 1 else TupleV(tuple(rest))
        case _:
            return None


def unknown_runtime_call(m: Machine, path: str, args: list[Value], span: Span) -> Value:
    """A runtime function without a row: it orders nothing, and its result is unknown."""
    for graph in args:
        if isinstance(graph, GraphV):
            graphs.changed(m, graph)
    name = path.rpartition(".")[2]
    m.emit(CudaCall(m.site(span), m.lane, name=name))
    driver = name.startswith("cu") and name[2:3].isupper()
    if not driver and (not name.startswith("cuda") or "_t" in name or name[4:5].islower()):
        return m.fresh(name, span)
    success = cuda_driver.SUCCESS if driver else cuda_runtime.SUCCESS
    return TupleV((ApiV(success), m.fresh(name, span)))


def launch_kernel(
    m: Machine, name: str, args: Sequence[Value], kwargs: dict[str, Value], span: Span, lib: Lib = Lib.TORCH
) -> Value:
    """A user kernel: without its body, every array is taken to be read and written."""
    views = tensors.buffers_in(m, [*args, *kwargs.values()])
    accesses = tuple(Access(view.id, Mode.UPDATE, view.region, _ASSUMED) for view in views)
    stream = m.current_stream(lib)
    m.emit(
        Launch(
            m.site(span),
            m.lane,
            _ASSUMED,
            stream=stream.id,
            accesses=accesses,
            name=name,
            library=lib.product,
        )
    )
    return NONE
