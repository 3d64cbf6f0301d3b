"""Copies between host and device, and what they mean to the host (measured: docs/semantics.md).

PyTorch: ``x.to("cpu", non_blocking=True)`` allocates pinned memory and returns before the copy ran;
``pinned.copy_(gpu, non_blocking=True)`` likewise; into pageable memory it blocks. From pageable
memory the source is always released on return.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import replace
from streamlint.interp.facts import answers, flags
from streamlint.interp.library import addresses, between_devices, devices, dtypes, named_host, tensors
from streamlint.interp.state import flavors, names, outside, symbols
from streamlint.interp.state.ends import PathEnds
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    ConstV,
    DeviceV,
    Flavor,
    SymV,
    Value,
    reading,
    symbol_of,
)
from streamlint.models import operands
from streamlint.models.copying import explicit_effect, host_effect
from streamlint.trace import (
    Access,
    Copy,
    Doubt,
    Evidence,
    HostAccess,
    HostEffect,
    Launch,
    Mode,
    Origin,
    Space,
    StreamChoice,
    StreamId,
)

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span


def is_true(m: Machine, value: Value, span: Span, name: str) -> bool:
    """Whether a flag such as ``non_blocking`` is set; an unknown one is taken as set on one path."""
    value = names.settle(m, value)
    known = answers.taken(m, value)
    if known is not None:
        return known
    key, negated = symbols.question(symbol_of(value))
    return (m.oracle.choose(key, name, relevant=False) == 0) != negated


def returns_early(m: Machine, value: Value, span: Span) -> bool:
    """Whether ``non_blocking`` is set. Where code says that it is unless a caller asks otherwise, it is.

    What is wrong then is so as the code is meant to be used; a copy that blocks orders no less.
    """
    value = names.settle(m, value)
    if isinstance(value, SymV) and value.symbol not in m.oracle.memo and _is_usual(m, value.symbol):
        m.oracle.answer(value.symbol, 0)
    return is_true(m, value, span, "non_blocking")


def _is_usual(m: Machine, symbol: Symbol) -> bool:
    """Whether a flag is set by default: ``def __init__(self, net, non_blocking=True)``."""
    if symbol not in m.parameters:
        return symbol in m.usual
    scope, name = m.parameters[symbol]
    defaults = (param.default for param in scope.function.params if param.name == name)
    return any(isinstance(default, ir.Const) and default.value is True for default in defaults)


def asks_for_pinned(m: Machine, value: Value, span: Span, name: str) -> Evidence | None:
    """How it is known that a flag asks for pinned memory; None where it does not.

    What a caller passes is the caller's choice, and both may be chosen. What a module that is not in sight
    says of the machine, as ``is_pin_memory_available()``, is one of them, and which is not known.
    """
    value = names.settle(m, value)
    if not is_true(m, value, span, name):
        return None
    is_open = answers.constant(m, value) is None and flags.is_of_module(symbol_of(value))
    return Evidence.ASSUMED if is_open else Evidence.SHOWN


def method(
    m: Machine, view: BufferV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    match name:
        case "copy_":
            source = args[0] if args else kwargs.get("src", NONE)
            non_blocking = kwargs.get("non_blocking", args[1] if len(args) > 1 else ConstV(False))
            _copy_in(m, view, source, span, blocking=not returns_early(m, non_blocking, span))
            return view
        case "cpu":
            _leaves_device(m, view, kwargs)
            return _to_host(m, view, span, blocking=not _flag(m, args, kwargs, span))
        case "cuda":
            return _to_device(
                m,
                view,
                devices.as_device(m, args[0] if args else NONE),
                span,
                blocking=not _flag(m, args, kwargs, span),
            )
        case "numpy":
            if not m.space(view).on_host and m.space(view) is not Space.UNKNOWN:
                tensors.read_on_host(m, view, span, "numpy()")
                return m.new_buffer("", Space.PAGEABLE, Origin.RESULT, Flavor.ARRAY, span)
            return BufferV(view.id, view.region, Flavor.ARRAY, axes=view.axes)
        case "pin_memory":
            if not m.space(view).on_host:
                # Only what is on the host can be pinned: what callers pass as a device is another one here.
                m.is_memory(view, Evidence.SHOWN)
                m.lives(view, Space.PAGEABLE, Evidence.SHOWN)
            if m.space(view) is Space.PINNED:
                return view
            tensors.operate(m, span, name, [view])
            return m.new_buffer("", Space.PINNED, Origin.RESULT, Flavor.TORCH, span)
        case "type":
            return _to(
                m, view, [ConstV("cuda")] if _names_device(names.settle(m, args[0])) else [], kwargs, span
            )
        case _:
            return _to(m, view, args, kwargs, span)


def _names_device(kind: Value) -> bool:
    """``x.type(torch.cuda.FloatTensor)`` moves ``x``; ``x.type(torch.float32)`` leaves it where it is."""
    match kind:
        case ApiV(text) | ConstV(str() as text):
            return text.startswith("torch.cuda.")
        case _:
            return False


def _copy_in(m: Machine, view: BufferV, source: Value, span: Span, *, blocking: bool) -> None:
    """``view.copy_(source)``. A source of unknown origin that must not block is taken to be on the device."""
    settled = names.settle(m, source)
    if settled == NONE:
        # A TypeError: self.state was given away by an earlier call.
        raise PathEnds
    sources = tensors.buffers_in(m, [source])
    if not sources and not blocking and m.space(view) is Space.PINNED and isinstance(settled, SymV):
        # page.copy_(optimizer.state[p]["exp_avg"], non_blocking=True): only a tensor can be copied from.
        sources = [tensors.as_buffer(m, settled)]
    if sources:
        m.is_memory(sources[0], Evidence.INFERRED)
        told = Evidence.ASSUMED if _is_given_by_unseen(m, settled, sources[0]) else Evidence.INFERRED
        if (
            m.space(view) is Space.PINNED
            and m.space(sources[0]) in (Space.UNKNOWN, Space.DEVICE)
            and not blocking
        ):
            # Pinned memory and a copy that returns at once: it comes from the device.
            m.lives(sources[0], Space.DEVICE, told)
        if not blocking and Space.PINNED in (m.space(view), m.space(sources[0])):
            # x.copy_(page, non_blocking=True): who asks for that has the other end on a device.
            for end in (view, sources[0]):
                known = m.buffers[end.id]
                if not known.space.on_host:
                    m.buffers[end.id] = replace(known, residence=max(known.residence, told))
        copy(m, view, sources[0], span, blocking=blocking, name="copy_")
    elif not m.space(view).on_host:
        tensors.launch(m, span, (Access(view.id, Mode.WRITE, view.region),), "copy_")
    elif blocking:
        tensors.write_on_host(m, view, span, "copy_")
    else:
        unknown = outside.memory(m, symbol_of(source), Space.DEVICE)
        copy(m, view, unknown, span, blocking=False, name="copy_")


def _is_given_by_unseen(m: Machine, source: Value, memory: BufferV) -> bool:
    """Whether a call of unseen code gave what is copied, and nothing else tells where that is.

    ``self.page.copy_(self.reader.read(), non_blocking=True)``: rows of a file are on the host, where the copy
    waits for itself.
    """
    match source:
        case SymV(symbols.Call() | symbols.Fresh(symbols.Call())):
            return m.buffers[memory.id].residence is Evidence.ASSUMED
        case _:
            return False


def _flag(m: Machine, args: list[Value], kwargs: dict[str, Value], span: Span) -> bool:
    if "non_blocking" in kwargs:
        return returns_early(m, kwargs["non_blocking"], span)
    return any(isinstance(a, ConstV) and a.value is True for a in args)


def _to(m: Machine, view: BufferV, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    """``x.to(...)``: a device (copy), a dtype (kernel), another tensor, or both."""
    non_blocking = _flag(m, args, kwargs, span)
    given, target = _target(m, args, kwargs)
    # x.to(device, non_blocking=True): who need not wait has a device, also where a test took it for None.
    if target is None or (target == NONE and not non_blocking):
        wanted = dtypes.named(kwargs.get("dtype", given[0] if given else None))
        copied = "copy" in kwargs and is_true(m, kwargs["copy"], span, "copy")
        if dtypes.is_same(m, view, wanted) and not copied:
            return view
        copied = copied or dtypes.is_other(m, view, wanted)
        return tensors.operate(m, span, "to(copy=True)" if copied else "to(dtype)", [view])
    device = devices.as_device(m, target)
    if device.is_host:
        if named_host.by_call(m, m.frame.calling, names.settle(m, target), view):
            _leaves_device(m, view, kwargs)
        return _to_host(m, view, span, blocking=not non_blocking)
    return _to_device(m, view, device, span, blocking=not non_blocking)


def _target(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> tuple[list[Value], Value | None]:
    """What ``to`` is given in its place, and what names a device among it."""
    given = [names.settle(m, a) for a in args if not (isinstance(a, ConstV) and isinstance(a.value, bool))]
    target: Value | None = kwargs.get("device")
    if target is None and given and not is_dtype(given[0]):
        target = given[0]
    return given, target


def goes_to_host(m: Machine, name: str, args: list[Value], kwargs: dict[str, Value]) -> bool | None:
    """Whether ``x.to(...)``, ``x.cpu()`` or ``x.cuda()`` leads to the host; None where it leads nowhere."""
    if name != "to":
        return name == "cpu"
    target = _target(m, args, kwargs)[1]
    return devices.as_device(m, target).is_host if target is not None and target != NONE else None


def _leaves_device(m: Machine, view: BufferV, kwargs: dict[str, Value]) -> None:
    """``x.to("cpu", non_blocking=True)``: who writes that has ``x`` on a device.

    Not if ``x`` was computed with what is on the host: ``x = torch.logical_or(batch.dones, ~valid.cpu())``.
    """
    if "non_blocking" in kwargs and not m.space(view).on_host and not _is_made_with_host(m, view):
        m.lives(view, Space.DEVICE, Evidence.INFERRED)


def _is_made_with_host(m: Machine, view: BufferV) -> bool:
    """Whether operators made something of memory on the host; beside a number of the host all may stand."""
    of_host = {
        op.at.span
        for op in m.ops
        if isinstance(op, HostAccess)
        and any(not m.buffers[access.buffer].of_values for access in op.accesses)
    }
    made = {view.id}
    for op in reversed(m.ops):
        if not isinstance(op, Launch) or Doubt.OPAQUE in op.doubts:
            continue
        if any(access.buffer in made for access in op.accesses if access.mode is not Mode.READ):
            if op.at.span in of_host:
                return True
            made.update(access.buffer for access in op.accesses if access.mode is Mode.READ)
    return False


def is_dtype(value: Value) -> bool:
    match value:
        case ApiV(path):
            return path.startswith(("torch.", "numpy."))
        case SymV(symbol):
            return "dtype" in symbols.text_of(symbol)
        case ConstV(int(), member):
            # x.to(Kind.HALF): a class of the tree that converts, as its own types are told.
            return member
        case _:
            return False


def _to_host(m: Machine, view: BufferV, span: Span, *, blocking: bool) -> Value:
    if m.space(view).on_host:
        return view
    space = Space.PAGEABLE if blocking else Space.PINNED
    made = m.new_buffer("", space, Origin.RESULT, Flavor.TORCH, span)
    m.buffers[made.id] = replace(m.buffers[made.id], kind=m.buffers[view.id].kind)
    copy(m, made, view, span, blocking=blocking, name="to cpu")
    return made


def _to_device(m: Machine, view: BufferV, device: DeviceV, span: Span, *, blocking: bool) -> Value:
    space = m.space(view)
    there = devices.place(m, device)
    if space is Space.DEVICE and m.buffers[view.id].device == there:
        apart = between_devices.is_named_apart(m, view, device)
        return between_devices.moved(m, view, device, span) if apart else view
    stream = m.current_stream(flavors.library(m, view), there)
    made = m.new_buffer("", Space.DEVICE, Origin.RESULT, Flavor.TORCH, span, stream.id, there)
    devices.is_named(m, made, device)
    # Who need not wait has the other end on a device.
    residence = device.by if blocking else max(device.by, Evidence.INFERRED)
    if device.by is not Evidence.ASSUMED:
        # What is moved to a device is memory.
        m.is_memory(view, Evidence.INFERRED)
    m.buffers[made.id] = replace(m.buffers[made.id], kind=m.buffers[view.id].kind, residence=residence)
    if space is Space.UNKNOWN:
        tensors.may_be(m, made, view, elsewhere=device.symbol is not None)
    apart = between_devices.is_of_another(m, stream.id, device)
    doubts = frozenset({Doubt.DEVICE}) if apart else frozenset[Doubt]()
    copy(m, made, view, span, blocking=blocking, name="to device", only_if_elsewhere=True, doubts=doubts)
    return made


def copy(
    m: Machine,
    dst: BufferV,
    src: BufferV,
    span: Span,
    *,
    blocking: bool = True,
    name: str = "copy",
    only_if_elsewhere: bool = False,
    doubts: frozenset[Doubt] = frozenset(),
) -> None:
    """PyTorch's copy on the current stream of the device involved. One of memory onto itself does nothing."""
    if (dst.id, dst.region) == (src.id, src.region):
        return
    addresses.copied(m, dst, src)
    to, of = m.space(dst), m.space(src)
    read = reading(src)
    write = Access(dst.id, Mode.WRITE, dst.region)
    if to.on_host and of.on_host:
        m.emit(HostAccess(m.site(span), m.lane, accesses=(read, write), name=name))
        return
    device = m.buffers[src.id].device if to.on_host else m.buffers[dst.id].device
    if of is Space.DEVICE and to is Space.DEVICE and device != m.buffers[src.id].device:
        between_devices.ordered(m, dst, src, span, name)
        return
    owner = dst if to is Space.DEVICE else src
    stream, by = m.current_stream(flavors.library(m, owner), device), flavors.product(owner)
    if of in (Space.DEVICE, Space.MANAGED) and not to.on_host:
        accesses = (read, write)
        # From the host the call would return when the copy is done.
        told = m.buffers[src.id].residence is Evidence.SHOWN or not blocking
        doubts = doubts if told else doubts | {Doubt.INFERRED}
        m.emit(
            Launch(
                m.site(span),
                m.lane,
                doubts,
                stream=stream.id,
                accesses=accesses,
                name=name,
                library=by,
                makes=operands.makes(name),
                saves=operands.saves(name),
                waits_on_host=blocking and to is Space.UNKNOWN,
            )
        )
        return
    effect = host_effect(to, of, blocking=blocking)
    if effect is HostEffect.BLOCKS and m.captures.has(stream.id):
        doubts |= _unsure_whether_on_host(m, dst, src)
    m.emit(
        Copy(
            m.site(span),
            m.lane,
            doubts,
            stream=stream.id,
            src=read,
            dst=write,
            host=effect,
            name=name,
            library=by,
            only_if_elsewhere=only_if_elsewhere,
        )
    )


def _unsure_whether_on_host(m: Machine, *ends: BufferV) -> frozenset[Doubt]:
    """Why a copy may not wait after all, which a capture would refuse: its other end may be on a device, too.

    ``rows = torch.zeros(n)``, where the caller may have chosen a default device.
    """
    assumed = (m.space(end).on_host and m.buffers[end.id].residence is Evidence.ASSUMED for end in ends)
    return frozenset({Doubt.ASSUMED}) if any(assumed) else frozenset()


def on_stream(
    m: Machine,
    dst: BufferV,
    src: BufferV,
    stream: StreamId,
    span: Span,
    *,
    blocking: bool,
    name: str,
    to_host: bool = False,
    library: str = "",
    choice: StreamChoice = StreamChoice.IMPLIED,
) -> None:
    """An explicit copy call (``cudaMemcpyAsync``) on a named stream.

    ``to_host``: the call says that the target is on the host, wherever there.
    """
    read = reading(src)
    write = Access(dst.id, Mode.WRITE, dst.region)
    to, of = m.space(dst), m.space(src)
    effect = explicit_effect(to, of, blocking=blocking)
    if blocking and to_host:
        effect = HostEffect.BLOCKS
    with between_devices.in_order_with(m, stream, between_devices.other_devices(m, dst, src, stream), span):
        m.emit(
            Copy(
                m.site(span),
                m.lane,
                stream=stream,
                src=read,
                dst=write,
                host=effect,
                name=name,
                library=library,
                choice=choice,
            )
        )
    addresses.copied(m, dst, src)
