"""Memory in Python's hands: tensors, host arrays and pointers, and who touches them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.facts import classes, guesses, known_values, no_memory
from streamlint.interp.facts.kinds import NO_MEMORY, Kind
from streamlint.interp.library import (
    devices,
    layout,
    mapped,
    module_memory,
    saved_hooks,
    storage,
    stored,
)
from streamlint.interp.state import flavors, names, outside, symbols
from streamlint.interp.state.values import (
    BufferV,
    Flavor,
    HeapV,
    Shape,
    StreamV,
    SymV,
    TupleV,
    Value,
    reading,
)
from streamlint.models import members, operands
from streamlint.models import torch as model
from streamlint.models.schema import Lib
from streamlint.trace import (
    Access,
    Doubt,
    Evidence,
    HostAccess,
    Launch,
    Mode,
    Origin,
    Purpose,
    Space,
    StreamChoice,
    Symbol,
    SyncStream,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.put_off import Guess
    from streamlint.source import Span
    from streamlint.trace import BufferId, StreamId

_OPAQUE = frozenset({Doubt.OPAQUE})
_GUESSED = frozenset({Doubt.OPAQUE, Doubt.GUESSED})

# ----------------------------------------------------------------------------- which buffers


def as_buffer(
    m: Machine, value: SymV, flavor: Flavor = Flavor.TORCH, kind: Evidence = Evidence.ASSUMED
) -> BufferV:
    """An unknown value as memory, the same each time; ``kind`` is how its use here shows that it is that."""
    return m.is_memory(_as_buffer(m, value, flavor), kind)


def _as_buffer(m: Machine, value: SymV, flavor: Flavor) -> BufferV:
    role = m.roles.get(value.symbol)
    if isinstance(role, BufferV):
        return role
    result = m.called_numbers.get(value.symbol)
    if result is not None:
        m.roles[value.symbol] = result
        return result
    guess = m.guesses.get(value.symbol)
    if guess is not None and flavor is Flavor.POINTER:
        return _moved_pointer(m, guess)
    if guess is not None:
        return guesses.buffer(m, guess)
    symbol = value.symbol
    if flavor is Flavor.TORCH:
        flavor = flavors.of_arrays(m.project.arrays_of(m.frame.env.module))
        if flavor is Flavor.DEVICE_ARRAY and known_values.of_value(m, symbol).space.on_host:
            # rows: np.ndarray, where only CuPy is imported beside NumPy: np.split(rows, n) is none of CuPy's.
            flavor = Flavor.ARRAY
    if _is_on_host(symbol):
        view = m.new_buffer(symbols.text_of(symbol), Space.PAGEABLE, Origin.RESULT, flavor, None)
    elif isinstance(symbol, symbols.Attr) and symbol.name == "grad":
        view = module_memory.at_home(m, symbol, storage.gradient(m, symbol))
    elif (data := _data_of(m, symbol, flavor)) is not None:
        view = data
    else:
        view = outside.memory(m, symbol, flavor=flavor)
        told = known_values.of_value(m, symbol)
        # x: np.ndarray, and x.sum(out=page) with a page of a device: then x is none of NumPy's.
        if told.kind is Kind.MEMORY and not (told.space.on_host and flavor is Flavor.DEVICE_ARRAY):
            m.is_memory(view, told.by)
            m.lives(view, told.space, told.residence)
        if told.space is Space.UNKNOWN:
            view = module_memory.at_home(m, symbol, view)
    m.roles[symbol] = view
    return view


def _data_of(m: Machine, symbol: symbols.Symbol, flavor: Flavor) -> BufferV | None:
    """The memory of what shows to be a tensor behind a use of its ``data``: both are one.

    ``dist.broadcast(p.data, src=0, async_op=True)`` for each parameter, and then ``p.detach().cpu()``.
    """
    data = m.roles.get(symbols.Attr(symbol, "data"))
    if not isinstance(data, BufferV) or Flavor.POINTER in (data.flavor, flavor):
        return None
    return replace(data, flavor=flavor)


def _moved_pointer(m: Machine, guess: Guess) -> BufferV:
    """``dst + offset`` where a call takes an address: a part of what ``dst`` points to."""
    base = next((value for value in guess.operands if isinstance(value, SymV)), None)
    view = as_buffer(m, base, Flavor.POINTER) if base is not None else outside.memory(m, guess.result)
    return BufferV(view.id, (*view.region, Symbol(symbols.text_of(guess.result))), Flavor.POINTER)


def _is_on_host(symbol: symbols.Symbol) -> bool:
    """Whether what it came from gives tensors in pageable memory."""
    match symbols.root(symbol):
        case symbols.Name(what):
            return what in model.ON_HOST
        case _:
            return False


def _is_plain(symbol: symbols.Symbol) -> bool:
    """Whether a symbolic value may be a tensor handed in from outside: ``x``, ``batch.ids``, ``xs[0]``."""
    if symbols.is_computed(symbol) or symbols.is_made(symbol):
        return False
    chain = (symbol, *symbols.owners(symbol))
    return not any(isinstance(one, symbols.Attr) and members.is_number(one.name) for one in chain)


def holds_stream(m: Machine, value: SymV) -> bool:
    """Whether an attribute of an unknown value is a stream: what has ``alt_stream`` is no tensor."""
    return any(
        isinstance(role, StreamV) and symbols.is_under(key, value.symbol) for key, role in m.roles.items()
    )


def without_numbers(m: Machine, name: str, kwargs: dict[str, Value]) -> dict[str, Value]:
    """What an operator of PyTorch gets by keyword beside numbers: no ``alpha`` of ``x.add_(y, alpha=a)``."""
    numbers = [
        parameter
        for parameter, value in kwargs.items()
        if operands.takes_number(name, parameter) and _is_number(m, names.settle(m, value))
    ]
    return {parameter: value for parameter, value in kwargs.items() if parameter not in numbers}


def _is_number(m: Machine, value: Value) -> bool:
    return no_memory.is_number(m, value) if isinstance(value, BufferV) else True


def buffers_in(
    m: Machine,
    values: Iterable[Value],
    *,
    unknown: bool = True,
    objects: bool = False,
    data: bool = False,
    taken: bool = False,
    depth: int = 3,
) -> list[BufferV]:
    """All memory that a call can reach directly through its arguments.

    ``taken``: the call takes tensors, whatever their names are.
    ``objects``: also that of objects which the code has made, as ``return Batch(image, label)`` hands it out.
    ``data``: of those whose classes are declared as data, a dataclass or its kin.
    """
    within = partial(buffers_in, m, unknown=unknown, objects=objects, data=data, taken=taken)
    found: list[BufferV] = []
    for value in values:
        match names.settle(m, value):
            case BufferV() as view:
                if not no_memory.is_none(m, view):
                    found += stored.with_put_back(m, view)
            case TupleV(items) if depth:
                found += within(items, depth=depth - 1)
            case HeapV(number) if depth and (
                m.heap[number].shape is not Shape.INSTANCE
                or (
                    number in m.constructed and (objects or (data and classes.is_data(m, m.heap[number].cls)))
                )
            ):
                held = m.heap[number]
                inside = [*held.items, *held.named, *held.extra.values()] + (
                    [held.sample] if held.open and held.sample is not None else []
                )
                found += within(inside, depth=depth - 1)
            case SymV(symbols.Spread(), (HeapV() as rest, *_)) if depth:
                # cuda.pinned(*pages), of which is not known how many there are.
                found += within([rest], depth=depth)
            case SymV(symbol) as value if taken and symbol in m.called_numbers:
                found.append(as_buffer(m, value, kind=Evidence.INFERRED))
            case SymV(symbol) if made := stored.memory_in(m, symbol):
                found += made
            case SymV(symbol) as value if (
                unknown
                and (_is_plain(symbol) or (taken and module_memory.has(m, symbol)))
                and known_values.of_value(m, symbol).kind not in NO_MEMORY
                and not holds_stream(m, value)
            ):
                found.append(as_buffer(m, value, Flavor.OPAQUE))
            case _:
                pass
    # Results of two launches are two things, though they are one memory.
    return list({(view, view.result_of): view for view in found}.values())


def on_host(m: Machine, views: Sequence[BufferV]) -> bool:
    return bool(views) and all(m.space(view).on_host for view in views)


# ----------------------------------------------------------------------------- touching memory


def launch(
    m: Machine,
    span: Span,
    accesses: Sequence[Access],
    name: str,
    lib: Lib = Lib.TORCH,
    doubts: frozenset[Doubt] = frozenset(),
) -> None:
    work(m, span, m.current_stream(lib).id, accesses, name, doubts, library=lib.product)


def _is_done_at_once(m: Machine, access: Access, library: str) -> bool:
    """Whether an operand is taken from host memory when the call is made.

    An array of CuPy's whose memory is page-locked (``cupy.ndarray(shape, memptr=pinned)``) the kernel itself
    reads and writes, when its stream comes to it.
    """
    return m.buffers[access.buffer].space.on_host and not mapped.works_in_place(m, access.buffer, library)


def work(
    m: Machine,
    span: Span,
    stream: StreamId,
    accesses: Sequence[Access],
    name: str,
    doubts: frozenset[Doubt] = frozenset(),
    *,
    library: str = "",
    choice: StreamChoice = StreamChoice.IMPLIED,
) -> None:
    """An operator's work on a stream. What it takes from host memory the host reads when it is called."""
    host_side = tuple(access for access in accesses if _is_done_at_once(m, access, library))
    if host_side:
        m.emit(HostAccess(m.site(span), m.lane, doubts, accesses=host_side, name=name))
    device_side = [access for access in accesses if access not in host_side]
    # PyTorch works on the current stream of the device where the memory is, others where they are told to.
    here = m.streams[stream].device
    places = {m.buffers[access.buffer].device for access in device_side} - {here}
    away = places if library in ("", Lib.TORCH.product) else set()
    for device in sorted(away):
        others = tuple(access for access in device_side if m.buffers[access.buffer].device == device)
        there = m.current_stream(Lib.TORCH, device).id
        m.emit(
            Launch(
                m.site(span),
                m.lane,
                doubts,
                stream=there,
                accesses=others,
                name=name,
                makes=operands.makes(name),
                saves=operands.saves(name),
            )
        )
    kept = tuple(access for access in device_side if m.buffers[access.buffer].device not in away)
    m.emit(
        Launch(
            m.site(span),
            m.lane,
            doubts,
            stream=stream,
            accesses=kept,
            name=name,
            library=library,
            makes=operands.makes(name),
            saves=operands.saves(name),
            choice=choice,
        )
    )


def read_on_host(m: Machine, value: Value, span: Span, name: str, *, opaque: bool = False) -> None:
    """Python looks at the numbers. A device tensor is fetched on the current stream, which is waited for."""
    for view in buffers_in(m, [value], unknown=False):
        if view.flavor is Flavor.POINTER:
            continue
        space = m.space(view)
        doubts = _GUESSED if opaque else frozenset()
        access = reading(view, doubts)
        # float(x) of an array of CuPy's fetches it, whatever memory it is in.
        reached = space is Space.MANAGED and view.flavor is not Flavor.DEVICE_ARRAY
        if space.on_host or reached or view.flavor is Flavor.ARRAY:
            m.emit(HostAccess(m.site(span), m.lane, doubts, accesses=(access,), name=name))
        elif view.flavor is not Flavor.OPAQUE:
            stream = m.current_stream(flavors.library(m, view), m.buffers[view.id].device)
            m.emit(
                Launch(
                    m.site(span),
                    m.lane,
                    doubts,
                    stream=stream.id,
                    accesses=(access,),
                    name=name,
                    library=flavors.product(view),
                )
            )
            waits = _fetch_doubts(m, view, stream) if space is Space.UNKNOWN else frozenset()
            m.emit(
                SyncStream(m.site(span), m.lane, waits, stream=stream.id, name=name, purpose=Purpose.VALUES)
            )


def _fetch_doubts(m: Machine, view: BufferV, stream: StreamV) -> frozenset[Doubt]:
    """Whether the host waits for what is of unknown residence: on the host there is nothing to wait for.

    What a captured operator has made is the graph's, as far as anything is captured at all, and as far as it
    is memory: ``if heads == 64`` of a number is no operator.
    """
    if not (m.captures.has(stream.id) and view.id in m.life.captured):
        return frozenset({Doubt.ALIAS})
    is_assumed = m.buffers[view.id].kind is Evidence.ASSUMED
    return frozenset({Doubt.ASSUMED if is_assumed else Doubt.PATH})


def write_on_host(m: Machine, view: BufferV, span: Span, name: str) -> None:
    m.emit(HostAccess(m.site(span), m.lane, accesses=(Access(view.id, Mode.WRITE, view.region),), name=name))


def operate(
    m: Machine, span: Span, name: str, values: Sequence[Value], *, extra: Sequence[Value] = (), by: str = ""
) -> Value:
    """An operator: reads its operands, makes a new tensor. On host memory the host does it, at once.

    ``by``: the library whose function it is, where the operands do not tell.
    """
    views = _company(m, buffers_in(m, [*values, *extra]))
    reads = [reading(view) for view in views]
    arrays_only = bool(views) and all(view.flavor is Flavor.ARRAY for view in views)
    if on_host(m, views) or arrays_only:
        # NumPy computes on the host, also where its array is a view of managed memory.
        m.emit(HostAccess(m.site(span), m.lane, accesses=tuple(reads), name=name))
        if all(view.flavor is Flavor.ARRAY for view in views):
            computed = m.fresh(name, span)
            # (counts * np.arange(n)).sum(): an array of NumPy's, or a number.
            m.of_numpy.add(computed.symbol)
            return computed
        return m.new_buffer("", Space.PAGEABLE, Origin.RESULT, Flavor.TORCH, span)
    first = next(
        (view for view in views if view.flavor in flavors.DEVICE_FLAVORS), views[0] if views else None
    )
    lib = flavors.library(m, first) if first is not None else Lib.TORCH
    device = m.buffers[views[0].id].device if views else m.device
    space = Space.DEVICE if any(m.space(view) is Space.DEVICE for view in views) else Space.UNKNOWN
    stream = m.current_stream(lib, device)
    made = m.new_buffer("", space, Origin.RESULT, flavors.of_arrays(lib), span, stream.id, device)
    _known_as(m, made, views)
    if len(views) == 1:
        may_give_back(m, made, views[0], name)
    known = flavors.product(first) if first is not None else ""
    work(m, span, stream.id, (*reads, Access(made.id, Mode.WRITE)), name, library=by or known)
    if operands.saves(name):
        saved_hooks.saves(m, views, span)
    return made


def may_give_back(m: Machine, made: BufferV, operand: BufferV, name: str) -> None:
    """An operator has made something of its only operand, which it may give back: ``x.contiguous()``."""
    if layout.may_return_operand(m, operand, name):
        may_be(m, made, operand)


def may_be(m: Machine, made: BufferV, operand: BufferV, *, elsewhere: bool = False) -> None:
    """A call has made a copy, or given back its operand: nothing tells which."""
    m.buffers[made.id] = replace(m.buffers[made.id], instead_of=operand.id, elsewhere=elsewhere)


def _company(m: Machine, views: list[BufferV]) -> list[BufferV]:
    """The operands that are memory: what only may be a tensor is a number beside one of the host.

    ``torch.arange(n) / config.dim``: a tensor of a device cannot stand there. One number that is a tensor of
    the host, ``torch.tensor(0.5) * x``, may stand beside any.
    """
    if not any(is_of_host(m, view) for view in views):
        return views
    known = (m.buffers[view.id] for view in views)
    return [
        view
        for view, buffer in zip(views, known, strict=True)
        if buffer.space is not Space.UNKNOWN or buffer.kind is not Evidence.ASSUMED
    ]


def is_of_host(m: Machine, view: BufferV) -> bool:
    """Whether the code shows a whole array of the host, beside which no operand is on a device."""
    buffer = m.buffers[view.id]
    return buffer.space.on_host and buffer.residence is Evidence.SHOWN and not buffer.of_values


def _known_as(m: Machine, made: BufferV, operands: Sequence[BufferV]) -> None:
    """What an operator makes is a tensor as surely as one of its operands is."""
    known = [m.buffers[view.id] for view in operands]
    kind = max((buffer.kind for buffer in known), default=Evidence.SHOWN)
    on_device = [buffer.residence for buffer in known if buffer.space is Space.DEVICE]
    residence = max(on_device, default=Evidence.ASSUMED if known else Evidence.SHOWN)
    m.buffers[made.id] = replace(m.buffers[made.id], kind=kind, residence=min(residence, kind))
    if len(known) == 1:
        m.made_of[made.id] = known[0].id
    if known:
        devices.is_beside(m, made, operands[0])


def _may_be_of_another(m: Machine, views: Sequence[BufferV], lib: Lib) -> bool:
    """Whether unresolved code may work for another library, for which a stream was entered.

    ``with cupy_stream: y = op(x)``, of which nothing shows whether PyTorch or CuPy makes it.
    """
    entered = {other for other, _, lane in m.current if lane == m.lane} - {lib}
    return bool(entered) and all(view.flavor is Flavor.OPAQUE for view in views)


def opaque_work(
    m: Machine,
    name: str,
    views: Sequence[BufferV],
    span: Span,
    *,
    surely: bool = False,
    guessed: bool = False,
    fills: Collection[BufferId] = (),
) -> Value:
    """An unresolved call that was given tensors: reads them, result on the current stream.

    ``surely``: it is an operator of an extension, which uses at least those on a device. ``guessed``: that it
    is unresolved is itself an assumption. ``fills``: what it can only write.
    """
    opaque = frozenset[Doubt]() if surely else _OPAQUE
    reads = [
        Access(view.id, Mode.WRITE, view.region, _OPAQUE)
        if view.id in fills
        else reading(view, _GUESSED if m.space(view).on_host else opaque)
        for view in views
    ]
    space = Space.DEVICE if any(m.space(view) is Space.DEVICE for view in views) else Space.UNKNOWN
    # solver.evaluate(t, x): whose array x is, tells more than t, of which nothing is known, or NumPy's page.
    telling = (view for view in views if view.flavor not in (Flavor.OPAQUE, Flavor.ARRAY))
    first = next(telling, views[0])
    device = m.buffers[first.id].device
    lib = flavors.library(m, first)
    stream = m.current_stream(lib, device)
    flavor = Flavor.DEVICE_ARRAY if first.flavor is Flavor.DEVICE_ARRAY else Flavor.OPAQUE
    # Whose allocator it is, a module tells that imports the library.
    owner = stream.id if m.project.imports(m.frame.env.module, lib.value) else None
    made = m.new_buffer("", space, Origin.RESULT, flavor, span, owner, device)
    # What it makes of a tensor is mostly one; a number or an object is never written by two streams.
    kind = min(Evidence.INFERRED, max(m.buffers[view.id].kind for view in views))
    there = [m.buffers[view.id].residence for view in views if m.space(view) is Space.DEVICE]
    residence = min(Evidence.INFERRED, max(there, default=Evidence.ASSUMED))
    m.buffers[made.id] = replace(m.buffers[made.id], kind=kind, residence=residence)
    if len(views) == 1:
        m.made_of[made.id] = views[0].id
    # ext.shift(x.data_ptr(), n): which stream it takes is its own business.
    guessed = guessed or any(view.flavor is Flavor.POINTER for view in views)
    doubts = _GUESSED if guessed or _may_be_of_another(m, views, lib) else opaque
    work(m, span, stream.id, (*reads, Access(made.id, Mode.WRITE, doubts=_OPAQUE)), name, doubts)
    # self.block(x): what it works out on the way is saved as well, and has just been queued.
    saved_hooks.saves(m, (*views, made), span)
    return made
