"""Effects on memory: copies, device work and allocations of a framework's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.library import (
    allocators,
    arrays,
    axes,
    copies,
    devices,
    extents,
    grouped,
    handoffs,
    kernel_arguments,
    making,
    mapped,
    stream_values,
    tensors,
)
from streamlint.interp.state import elements, flavors, symbols
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    ConstV,
    EventV,
    Flavor,
    StreamV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.models import copying
from streamlint.models import schema as fx
from streamlint.trace import (
    Access,
    Alloc,
    AllocKind,
    Doubt,
    Evidence,
    Free,
    FreeKind,
    HostAccess,
    Launch,
    Mode,
    Origin,
    Purpose,
    Record,
    Space,
    StreamChoice,
    StreamKind,
    SyncDevice,
    SyncStream,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streamlint.interp.library.call import Call
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span
    from streamlint.trace import StreamId

OBSERVED = frozenset({Doubt.OBSERVED})
_OPAQUE = frozenset({Doubt.OPAQUE})
_OWNERS = (Flavor.TORCH, Flavor.DEVICE_ARRAY, Flavor.NUMBA_ARRAY, Flavor.PYCUDA_ARRAY, Flavor.WARP_ARRAY)
"""Objects that give their memory back when nothing refers to them any more."""


def copy(call: Call, effect: fx.Copies) -> Value | None:
    """A copy between two parameters, or into memory that it allocates and returns."""
    m = call.m
    if effect.aliases is not None and call.value(effect.aliases) != NONE:
        return view(call, fx.Views(effect.aliases, lib=call.lib))
    if effect.makes is not None and effect.src not in call.bound:
        # rmm.DeviceBuffer(size=n) has nothing to copy from.
        return allocate(call, fx.Allocates(effect.makes, effect.stream, size=effect.count or ""))
    dst, src = call.buffer(effect.dst), call.buffer(effect.src)
    stream = _of_other_device(call, effect, stream_of(call, effect.stream), (dst, src))
    if effect.view_on_host and src is not None and m.space(src).on_host:
        if effect.values:
            tensors.read_on_host(m, src, call.span, f"{call.name()}()")
            return m.fresh(call.name(), call.span)
        return BufferV(src.id, src.region, Flavor.ARRAY)
    if dst is None and effect.makes is not None:
        dst = _made(call, effect, effect.makes, src, stream)
    if src is not None and effect.makes is not None and effect.makes.on_host and effect.pinned is None:
        # cupy.asnumpy(x), x.get(): what is fetched to the host is on the device.
        m.is_memory(src, call.told)
        if m.space(src) is Space.UNKNOWN:
            m.lives(src, Space.DEVICE, call.told)
    if dst is not None:
        _copies(call, effect, dst, src, stream)
    if effect.makes is not None:
        return dst
    return call.value(effect.returns) if effect.returns is not None else None


def _made(call: Call, effect: fx.Copies, makes: Space, src: BufferV | None, stream: StreamV) -> BufferV:
    """The memory that a copy allocates for itself."""
    m = call.m
    stays = effect.pinned is not None and call.value("device") == NONE and src is not None
    pinned = "pinned" if effect.placed else effect.pinned
    space = m.space(src) if stays and src is not None else _space(call, makes, pinned)
    pool = allocators.pool_of(m, call.value(allocators.OF_POOL))
    on = stream.id if not space.on_host and pool is None else None
    flavor = flavors.flavor_of(call.lib, space)
    made = m.new_buffer("", space, Origin.RESULT, flavor, call.span, on, call.own_device())
    if pool is not None:
        _comes_from(call, made, *pool)
    return m.no_surer(made, call.told)


def _extent(call: Call, effect: fx.Copies, end: BufferV, at: int, other: BufferV) -> BufferV:
    """What is copied of one end of a copy: bytes, or rows that lie apart."""
    if effect.pitches is None:
        return call.sized(end, effect.count) if effect.count else extents.as_large_as(call.m, end, other)
    pitch, width, height = (call.value(name) for name in (effect.pitches[at], "width", "height"))
    return extents.rows(call.m, end, pitch, width, height)


def _copies(call: Call, effect: fx.Copies, dst: BufferV, src: BufferV | None, stream: StreamV) -> None:
    m = call.m
    if effect.placed and m.space(dst).on_host and (src is None or m.space(src).on_host):
        # The host copies its own memory by itself: wp.array(rows, device="cpu").
        reads = () if src is None else (Access(src.id, Mode.READ, src.region),)
        m.emit(HostAccess(m.site(call.span), m.lane, accesses=reads, name=call.name()))
    elif src is not None:
        if effect.from_host and m.space(src) is Space.UNKNOWN:
            m.is_not_pending(src)
        to_host = _by_kind(call, dst, src)
        copies.on_stream(
            m,
            _extent(call, effect, dst, 0, src),
            _extent(call, effect, src, 1, dst),
            stream.id,
            call.span,
            blocking=_blocks(call, effect, stream, dst),
            to_host=to_host,
            name=call.name(),
            library=call.lib.product,
            choice=_choice(call, effect),
        )
    elif not m.space(dst).on_host:
        # From a host value that no variable holds: nobody can overwrite it.
        tensors.work(
            m,
            call.span,
            stream.id,
            (Access(dst.id, Mode.WRITE, dst.region),),
            call.name(),
            library=call.lib.product,
            choice=_choice(call, effect),
        )


def _of_other_device(
    call: Call, effect: fx.Copies, stream: StreamV, views: Sequence[BufferV | None]
) -> StreamV:
    """CuPy copies an array of another device on the current stream while that device is current.

    The null stream, handle 0, is then that device's null stream (``get`` and ``set`` in cupy/_core/core.pyx).
    """
    m = call.m
    if (
        call.lib is not fx.Lib.CUPY
        or effect.stream == "default"
        or call.value(effect.stream) != NONE
        or not m.streams[stream.id].is_default
    ):
        return stream
    devices_of = {
        m.buffers[view.id].device for view in views if view is not None and not m.space(view).on_host
    }
    return m.current_stream(call.lib, devices_of.pop()) if len(devices_of) == 1 else stream


def _blocks(call: Call, effect: fx.Copies, stream: StreamV, dst: BufferV) -> bool:
    """Whether the call says that it returns when the copy is done."""
    if effect.unless is not None:
        value = call.value(effect.unless)
        if effect.unless == effect.stream:
            # Numba documents a copy without a stream as synchronous, but uses the stream that the
            # array was made on: into pinned memory it returns at once.
            pinned = call.m.space(dst) is Space.PINNED and stream != call.m.current_stream(call.lib)
            # rmm asks the stream whether it is the default one (pylibrmm/device_buffer.pyx).
            default = call.lib is fx.Lib.RMM and call.m.streams[stream.id].kind is StreamKind.LEGACY
            return default or (value in (NONE, ConstV(0)) and not pinned)
        return effect.blocking and not copies.is_true(call.m, value, call.span, effect.unless)
    if effect.unless_false is not None:
        value = call.value(effect.unless_false)
        return value == NONE or copies.is_true(call.m, value, call.span, effect.unless_false)
    return effect.blocking


def stream_of(call: Call, name: str | None) -> StreamV:
    """The stream of a row's parameter; a Numba array without one in the call uses the one it was made on.

    ``"default"`` is the legacy default stream of the receiver's device.
    """
    if name == "default":
        own = call.bound.get("self")
        device = call.m.buffers[own.id].device if isinstance(own, BufferV) else None
        return call.m.default(call.m.default_stream, call.lib, device)
    if call.lib is fx.Lib.NUMBA and call.value(name) in (NONE, ConstV(0)):
        receiver = call.bound.get("self")
        if isinstance(receiver, BufferV):
            made_on = stream_values.bound_stream(call.m, receiver)
            if made_on is not None:
                return StreamV(made_on, fx.Lib.NUMBA)
    return call.stream(name)


def _by_kind(call: Call, dst: BufferV, src: BufferV) -> bool:
    """``cudaMemcpyDeviceToHost`` tells where unknown pointers point; whether the copy goes to the host."""
    kind = call.value("kind")
    text = kind.path if isinstance(kind, ApiV) else call.name().removesuffix("Async")
    for endings, spaces in copying.ENDS.items():
        if text.endswith(endings):
            for view, space in zip((dst, src), spaces, strict=True):
                if call.m.space(view) is Space.UNKNOWN and space is not Space.UNKNOWN:
                    call.m.lives(view, space, call.told)
            return spaces[0] is Space.UNKNOWN
    return False


def use(call: Call, effect: fx.Uses) -> None:
    """Device work that touches parameters, or whatever buffers are among its kernel arguments."""
    m = call.m
    accesses: list[Access] = []
    for group, mode in (
        (effect.reads, Mode.READ),
        (effect.writes, Mode.WRITE),
        (effect.updates, Mode.UPDATE),
    ):
        for name in group:
            for view in call.buffers(name):
                if effect.on_device and m.space(view) is Space.UNKNOWN:
                    m.lives(view, Space.DEVICE, call.told)
                part = call.sized(view, effect.count)
                accesses.append(Access(part.id, mode, part.region))
    uses = kernel_arguments.source_uses(call, effect.kernel, effect.code)
    for name in effect.packed:
        accesses += kernel_arguments.packed(call, call.value(name), uses)
    if effect.bound:
        accesses += bound(call, "self")
    stream = stream_of(call, effect.stream).id
    # A kernel whose source is not seen may only read what it is given.
    doubts = _OPAQUE if effect.packed and uses is None else frozenset()
    launch = Launch(
        m.site(call.span),
        m.lane,
        doubts,
        stream=stream,
        accesses=tuple(accesses),
        name=call.name(),
        library=call.lib.product,
        choice=_choice(call, effect),
        issued_on=m.exact_device if effect.packed and call.lib not in making.CONTEXTS else None,
    )
    if effect.grouped:
        grouped.queue(m, launch)
    else:
        m.emit(launch)
    if effect.own_memory:
        # What it does to its own memory is no guess, whatever it does with its arguments.
        own = Access(_of_receiver(call).id, Mode.WRITE)
        m.emit(replace(launch, doubts=frozenset(), accesses=(own,)))
    if effect.bound:
        _record_behind(call, stream)
    spaces = {m.buffers[access.buffer].space for access in accesses}
    if effect.host_waits and spaces & {Space.PINNED, Space.PAGEABLE, Space.MANAGED}:
        m.emit(SyncStream(m.site(call.span), m.lane, stream=stream, name=call.name(), purpose=Purpose.ASIDE))


def _of_receiver(call: Call) -> BufferV:
    """Memory that an object keeps for itself: a context of TensorRT's has its activations there."""
    known, owner = call.m.works_in, symbol_of(call.value("self"))
    if owner not in known:
        name = f"the memory that `{call.name()}` works in"
        known[owner] = call.m.new_buffer(name, Space.DEVICE, Origin.ALLOCATED, Flavor.OPAQUE, None)
    return known[owner]


def _choice(call: Call, effect: fx.Copies | fx.Uses) -> StreamChoice:
    """How a row's call chose its stream; ``cudaMemcpy`` takes none, nor does Warp's ``array.numpy()``."""
    if effect.stream in (None, "default"):
        return StreamChoice.IMPLIED
    packed = effect.packed if isinstance(effect, fx.Uses) else ()
    return stream_values.stream_choice(
        call.m, call.value(effect.stream), [call.value(name) for name in packed]
    )


def _asks_driver(call: Call) -> bool:
    """``cudaMalloc`` and its like; the allocators of frameworks mostly hand out memory that they have."""
    return call.lib in (fx.Lib.RUNTIME, fx.Lib.DRIVER) or call.api.name.startswith("runtime.")


def allocate(call: Call, effect: fx.Allocates) -> Value:
    """New memory, ordered by a stream where the allocation is."""
    on = (
        call.stream(None if effect.stream == "current" else effect.stream).id
        if effect.stream is not None
        else None
    )
    space = _space(call, effect.space, effect.pinned)
    if effect.of in call.bound:
        space = allocators.given_by(call.m, call.value(effect.of))
    own = flavors.of_arrays(effect.lib) if effect.lib is not None else flavors.flavor_of(call.lib, space)
    flavor = Flavor.POINTER if effect.address else own
    made = call.m.new_buffer(
        "",
        space,
        Origin.ALLOCATED,
        flavor,
        call.span,
        on,
        call.own_device(),
        by=call.api.name.rpartition(".")[2],
        kind=AllocKind.QUEUED if effect.queued else AllocKind.CALL,
    )
    last = call.m.ops[-1]
    if isinstance(last, Alloc) and on is None and _asks_driver(call):
        call.m.ops[-1] = replace(last, name=call.name())
    given = allocators.pool_of(call.m, call.value(allocators.OF_POOL))
    pool = (effect.pool, call.value("self")) if effect.pool is not None else given
    if pool is not None:
        _comes_from(call, made, *pool)
    if effect.size in call.bound:
        call.m.sizes[made.id] = symbol_of(call.bound[effect.size])
    if flavor is Flavor.ARRAY and "shape" in call.bound:
        made = replace(made, axes=axes.of_shape(call.m, call.value("shape")))
    if effect.mapped:
        mapped.note(call.m, made)
    if effect.filled:
        where = call.stream(None).id
        tensors.work(call.m, call.span, where, (Access(made.id, Mode.WRITE),), call.name())
    return made


def _comes_from(call: Call, made: BufferV, kind: str, pool: Value) -> None:
    """A pool hands the block out again as soon as nothing refers to it, whatever stream it was made on."""
    number = _pool_number(call, pool)
    call.m.buffers[made.id] = replace(call.m.buffers[made.id], pool=kind, pool_number=number)


def _space(call: Call, space: Space, pinned: str | None) -> Space:
    """``wp.zeros(n, device="cpu", pinned=True)`` is not on the device."""
    if pinned is None:
        return space
    device = devices.as_device(call.m, call.value("device"))
    if not device.is_host:
        return space
    return Space.PINNED if copies.is_true(call.m, call.value(pinned), call.span, pinned) else Space.PAGEABLE


def bound(call: Call, name: str, doubts: frozenset[Doubt] = _OPAQUE) -> list[Access]:
    """What an object was told to use, by address; which of it the work only reads may not be known.

    What a call has bound before it works, under a name that its caller passed, takes the place of what an
    earlier call bound there: ``def run(self, name, x): context.set_tensor_address(name, x.data_ptr()); ...``.
    """
    held = call.m.bound.get(symbol_of(call.value(name)), {})
    unknown = {key for key in held if not isinstance(key, symbols.Const)}
    anew = {held[key].at for key in unknown if held[key].call == call.m.call}
    return [
        Access(view.id, kept.mode or Mode.UPDATE, view.region, doubts)
        for key, kept in held.items()
        if key not in unknown or kept.call == call.m.call or kept.at not in anew
        for view in tensors.buffers_in(call.m, [kept.address])
    ]


def _record_behind(call: Call, stream: StreamId) -> None:
    """The event that an object was told to record behind its work: when the input is consumed, or later."""
    m = call.m
    for kept in m.bound.get(symbol_of(call.value("self")), {}).values():
        if isinstance(kept.address, EventV):
            m.emit(Record(m.site(call.span), m.lane, stream=stream, event=kept.address.id))


def _pool_number(call: Call, pool: Value) -> int:
    """Which pool it is: 0 where the library has one, ``cupyx.empty_pinned(shape)``."""
    known = call.m.life.pools
    return 0 if pool == NONE else known.setdefault(symbol_of(pool), len(known) + 1)


def pin(m: Machine, views: Iterable[BufferV]) -> None:
    """``cudaHostRegister(rows)``: that shows where it is."""
    for view in views:
        m.buffers[view.id] = replace(m.buffers[view.id], space=Space.PINNED, residence=Evidence.SHOWN)
        m.forms.unpinned.discard(view.id)


def unpin(m: Machine, views: Iterable[BufferV], span: Span, name: str) -> None:
    """``cudaHostUnregister(rows)`` waits for the device, as was seen; then it is pageable again."""
    m.emit(SyncDevice(m.site(span), m.lane, OBSERVED, device=m.device, name=name, purpose=Purpose.ASIDE))
    m.forms.unpinned.update(view.id for view in views)


def free(call: Call, effect: fx.Frees) -> None:
    m = call.m
    freed = call.buffer(effect.buffer)
    if freed is None:
        return
    if m.buffers[freed.id].pool is not None and not m.buffers[freed.id].space.on_host:
        # block = pool.allocate(n); block.free(): the pool hands it out again at once, and waits for nothing.
        m.life.candidates.discard(freed.id)
        m.emit(Free(m.site(call.span), m.lane, buffer=freed.id, kind=FreeKind.DROPPED, name=call.name()))
        return
    if effect.later:
        # buffer.set_deallocation_stream(consumer); buffer.close() frees it on `consumer`.
        m.life.freed_on[freed.id] = call.stream(effect.stream).id
        return
    # cudaFree of memory from cudaMallocAsync does not wait for anything (measured).
    if effect.device_wide and m.buffers[freed.id].alloc_stream is None:
        m.emit(
            SyncDevice(
                m.site(call.span), m.lane, OBSERVED, device=m.device, name=call.name(), purpose=Purpose.ASIDE
            )
        )
    on = _freed_on(call, effect.stream, freed)
    at_once = effect.stream is None and not effect.device_wide
    m.emit(
        Free(
            m.site(call.span),
            m.lane,
            buffer=freed.id,
            stream=on,
            at_once=at_once,
            of_another=_is_owned(m, freed),
            name=call.name(),
        )
    )


def _is_owned(m: Machine, freed: BufferV) -> bool:
    """Whether an address is that of memory which an object of a library owns, and gives back by itself."""
    made = m.buffers[freed.id].origin in (Origin.ALLOCATED, Origin.RESULT)
    return freed.bare and made and m.life.flavors.get(freed.id) in _OWNERS


def _freed_on(call: Call, stream: str | None, freed: BufferV) -> StreamId | None:
    """The stream that orders a free; ``cuda.core``'s is that of the allocation, or was set."""
    if stream is None:
        return None
    if call.lib is fx.Lib.CORE and call.value(stream) == NONE:
        return call.m.life.freed_on.get(freed.id, call.m.buffers[freed.id].alloc_stream)
    return call.stream(stream).id


def view(call: Call, effect: fx.Views) -> Value:
    seen = call.buffer(effect.of)
    if seen is None:
        return call.m.fresh("view", call.span)
    if effect.address:
        return handoffs.by_address(call.m, seen, call.span, call.name())
    flavor = Flavor.ARRAY if effect.array else seen.flavor
    if effect.lib is not None:
        flavor = flavors.FLAVORS.get(effect.lib, Flavor.TORCH)
        handoffs.as_view(call.m, seen, effect.lib, call.span, call.name())
    return BufferV(seen.id, seen.region, flavor)


def launch_python(call: Call, kernel: str, lists: Sequence[str], stream: str) -> Value:
    """``wp.launch(kernel, dim, inputs=[...], outputs=[...], stream=s)``"""
    args = [one for name in lists for one in elements.listed(call.m, call.value(name)) or ()]
    given = call.value(stream)
    if given == NONE and call.own_device() not in (None, call.m.device):
        given = call.stream(None)
    config = TupleV((NONE, NONE, given))
    return arrays.launch(call.m, call.value(kernel), config, args, call.span, call.lib)


def of_module(m: Machine, variable: Symbol, lib: fx.Lib, span: Span) -> BufferV:
    """A variable of a loaded module, the same each time: ``cuModuleGetGlobal(module, b"table")``."""
    known = m.roles.get(variable)
    if isinstance(known, BufferV):
        return known
    flavor = Flavor.POINTER if lib is not fx.Lib.CORE else Flavor.CORE_BUFFER
    made = m.new_buffer("", Space.DEVICE, Origin.ALLOCATED, flavor, span)
    m.roles[variable] = made
    return made
