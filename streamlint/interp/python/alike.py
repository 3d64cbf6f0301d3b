"""Another element of a container, made as the one that stands for all was made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.library import devices, making
from streamlint.interp.state import counters, elements, replacing, symbols
from streamlint.interp.state.values import (
    Born,
    BufferV,
    ConstV,
    DeviceV,
    EventV,
    HeapV,
    StreamV,
    SymV,
    TupleV,
    Value,
)
from streamlint.models import python
from streamlint.models.schema import Lib
from streamlint.trace import WHOLE, BufferId, Interval, Record, SymbolSlice

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import Flavor
    from streamlint.trace import Buffer, DeviceId, Region, Selector

DEPTH = 2
"""Objects in objects that another element has of its own, where it is not known which the sample has."""


def now(m: Machine) -> Born:
    return Born(len(m.streams), len(m.events), len(m.buffers), len(m.heap))


def like(m: Machine, sample: Value, key: Symbol, born: Born | None = None, *, apart: bool = False) -> Value:
    """Another element of the same making as ``sample``.

    ``[Slot() for _ in range(n)]`` makes as many streams as slots. Elements share what was there before
    (``born``): ``[Part(lane, x) for _ in names]`` has one ``lane``.
    What an element holds twice, another one does too. ``apart``: the sample is itself an element, so that
    the other's memory is not a part of the sample's.
    """
    return _Another(m, key, born, apart).of(sample, DEPTH)


@dataclass(slots=True)
class _Another:
    m: Machine
    key: Symbol
    born: Born | None
    apart: bool
    made: dict[Value, Value] = field(default_factory=dict)
    fetched: set[Value] | None = None

    @property
    def told(self) -> str:
        return symbols.text_of(self.key)

    def of(self, value: Value, depth: int) -> Value:
        match value:
            case StreamV() | EventV() | HeapV():
                if value not in self.made:
                    self.made[value] = value if self._is_shared(value) else self._made(value, depth)
                return self.made[value]
            case BufferV(number, region, flavor):
                if self.born is not None and number < self.born.buffers:
                    # Another part of what they share: host[id(p)] = flat[start:end]
                    return BufferV(number, (self._selector(),), flavor) if self.apart and region else value
                if self.apart or number in self.m.forms.emptied or self._device(BufferV(number, WHOLE)):
                    return BufferV(self._memory(number), region, flavor)
                return self._part(number, self._place(region), flavor)
            case TupleV(items):
                return TupleV(tuple(self.of(item, depth) for item in items))
            case SymV(base):
                own = self._own(base)
                if devices.is_first(own):
                    return value
                if isinstance(own, symbols.Const) and own is not base:
                    return ConstV(own.value)
                if own is base and not (self._is_one(base) or self._is_of_each(base)):
                    own = symbols.Item(base, self.key)
                return self._given(value, own, depth)
            case DeviceV(symbol=base) if base is not None:
                return devices.another(self._own(base)) or value
            case _:
                return value

    def _device(self, value: StreamV | EventV | BufferV) -> DeviceV | None:
        """Where another element has this, if its number names the device: ``[Lane(i) for i in range(n)]``."""
        name = devices.name_of(self.m, value)
        return devices.another(own) if name is not None and (own := self._own(name)) is not name else None

    def _given(self, value: SymV, own: Symbol, depth: int) -> SymV:
        """What a call of a library has given: ``[Shard(p, torch.optim.AdamW([p])) for p in parts]``.

        Each optimizer is one, and holds the parameters of its element.
        """
        maker = self.m.makers.get(value.symbol)
        if maker is not None and own is not value.symbol:
            self.m.makers.setdefault(own, maker)
        return replace(value, symbol=own, holds=tuple(self.of(held, depth) for held in value.holds))

    def _own(self, symbol: Symbol) -> Symbol:
        """What is made of each element of something, as this one has it: of ``blocks[0]``."""
        number = symbols.number(self.key)
        if self.born is None or number is None:
            return symbol
        for each in self.born.each:
            symbol = replacing.replaced(symbol, each, self._numbered(each, number))
        return symbol

    def _numbered(self, each: symbols.Item | symbols.Memory, number: int) -> Symbol:
        """The element of something that stands at the same place; of ``range(n)`` and of counts a number.

        ``[Weight(i % 2) for i in range(layers)]``: the second one has 1. Not so where that stands for work on
        the first of two streams: ``[(i % 2, load(rows, i % 2)) for i, rows in enumerate(parts)]``.
        """
        if isinstance(each, symbols.Memory):
            row = elements.selector_of(symbols.constant(number))
            return symbols.Memory(each.number, (*each.region[:-1], row))
        at = number + (symbols.number(each.at) or 0)
        works = self.born is None or self.born.works
        counted = None if works else counters.at(self.m, each, at)
        if counted is not None:
            return symbols.constant(counted)
        return symbols.Item(each.of, symbols.constant(at))

    def _is_one(self, symbol: Symbol) -> bool:
        """What was made for the element has its place in its symbol, or stands for each of something."""
        return (
            self.born is not None
            and not symbols.has(symbol, symbols.Each, symbols.Fresh, symbols.Function)
            and not (_is_number(symbol) and _is_of_any_row(symbol, self.born))
        )

    def _is_of_each(self, symbol: Symbol) -> bool:
        """``f"cuda:{i}"`` of ``names = [f"cuda:{i}" for i in range(n)]``, for all of ``names`` too."""
        return (
            isinstance(self.key, symbols.Each)
            and self.born is not None
            and any(symbols.contains(symbol, each) for each in self.born.each)
        )

    def _is_shared(self, value: StreamV | EventV | HeapV) -> bool:
        if self.born is None:
            return False
        match value:
            case StreamV(number):
                return number < self.born.streams or value in self._fetched()
            case EventV(number):
                return number < self.born.events or value in self._fetched()
            case HeapV(number):
                return number < self.born.objects or value in self._fetched()

    def _fetched(self) -> set[Value]:
        """What was there before too, as an element of a list that nothing had asked for it by its index.

        ``[Pair(self.cameras[i], self.cameras[j]) for i, j in pairs]``
        """
        if self.fetched is None:
            before = self.born.objects if self.born is not None else 0
            older = (held for number, held in self.m.heap.items() if number < before)
            self.fetched = {element for held in older for element in held.extra.values()}
        return self.fetched

    def _made(self, value: StreamV | EventV | HeapV, depth: int) -> Value:
        match value:
            case StreamV():
                return self._stream(value)
            case EventV():
                return self._event(value)
            case HeapV():
                return self._object(value, depth) if depth and value.id not in self.m.monitors else value

    def _stream(self, value: StreamV) -> Value:
        old = self.m.streams[value.id]
        if not old.span:
            return value
        name, passed = f"{old.name}[{self.told}]", old.passed
        if any(isinstance(each, HeapV) and self.m.heap[each.id].cls is not None for each in self.made):
            # lanes = [Lane() for _ in devices]: each has its `self.stream`.
            which = f"element {self.told}" if self.told.isdigit() else "another element"
            name = f"the `{old.name}` of {which}"
        if passed is not None:
            passed = replace(passed, part=f"{passed.part}[{self.told}]")
        device = self._device(value) or DeviceV(old.device, old.made_on)
        made = self.m.new_stream(old.kind, name, old.span, value.lib, device.id, device.exact, passed)
        if not self.apart:
            self.m.streams[made.id] = replace(self.m.streams[made.id], made_like=value.id)
        return made

    def _event(self, value: EventV) -> Value:
        if value.lib in (Lib.DISTRIBUTED, Lib.KVIKIO):
            # One stands for all that a loop started: [all_reduce(t, async_op=True) for t in ts]
            return value
        old = self.m.events[value.id]
        made = self.m.new_event(f"{old.name}[{self.told}]", old.span, value.lib)
        if isinstance(self.key, symbols.Each):
            self.m.each_of[made.id] = value.id
        elif value.id in self.m.shared_events:
            # [event.ipc_handle() for event in self.ready] has given away the handles of all of them.
            self.m.shared_events[made.id] = None
        self.m.events[made.id] = replace(
            self.m.events[made.id],
            function=old.function,
            timing=old.timing,
            earlier=old.earlier,
            of_call=old.of_call,
            lane=old.lane,
            made_like=value.id if self._is_recorded(value) else None,
            made_on=self._made_on(value),
        )
        if value.id in self.m.captures.external:
            # [torch.cuda.Event(external=True) for _ in stages]: so are the others.
            self.m.captures.external.add(made.id)
        return made

    def _made_on(self, event: EventV) -> DeviceId | None:
        """An event of PyTorch's belongs to no device before it is recorded."""
        made_on = self.m.events[event.id].made_on
        device = self._device(event)
        return device.exact if device is not None and event.lib not in making.LATE else made_on

    def _is_recorded(self, value: EventV) -> bool:
        """``{k: lane.record_event() for k in pages}``: so are the others."""
        return any(isinstance(op, Record) and op.event == value.id for op in self.m.ops)

    def _part(self, number: BufferId, region: Region, flavor: Flavor) -> BufferV:
        """Memory of another element, where the sample's stands for that of all."""
        self.m.life.parts.setdefault(number, set()).add(region)
        return BufferV(number, region, flavor)

    def _place(self, region: Region) -> Region:
        """Which part of the memory of all elements this one has, and what of that it holds.

        ``bucket.flat = zeros(n)``, and ``bucket.grads = [bucket.flat[:size]]``: that slice of the same part.
        """
        outer = next((at for at, one in enumerate(region) if _is_slice(one)), len(region))
        return (*region[:outer], self._selector(), *region[outer:])

    def _memory(self, number: BufferId) -> BufferId:
        whole = BufferV(number, ())
        if whole not in self.made:
            other = BufferId(len(self.m.buffers))
            self.m.buffers[other] = replace(self._on_its_device(self.m.buffers[number]), id=other)
            self.m.life.flavors[other] = self.m.life.flavors[number]
            if number in self.m.forms.emptied:
                # for page in pages: page.untyped_storage().resize_(0): so were those of the others.
                self.m.forms.emptied.add(other)
            self.made[whole] = BufferV(other, ())
        made = self.made[whole]
        assert isinstance(made, BufferV)
        return made.id

    def _on_its_device(self, memory: Buffer) -> Buffer:
        """On the device of the element's number, where the same stream of that has allocated it."""
        device = self._device(BufferV(memory.id, WHOLE))
        if device is None or memory.space.on_host:
            return memory
        stream = memory.alloc_stream
        old = self.m.streams[stream] if stream is not None else None
        if old is not None and old.is_default:
            stream = self.m.default(old.kind, None, device.id).id
        return replace(memory, device=device.id, alloc_stream=stream)

    def _object(self, value: HeapV, depth: int) -> Value:
        held = self.m.heap[value.id]
        made = self.m.new_object(
            held.shape, cls=held.cls, symbol=symbols.Item(self.m.symbol_of_object(value), self.key)
        )
        self.made[value] = made
        if value.id in self.m.constructed:
            # for lane in lanes: lane.start(x): each of [Lane() for _ in range(n)] is the code's own.
            self.m.constructed.add(made.id)
        copy = self.m.heap[made.id]
        inside = depth if self.born is not None else depth - 1
        copy.attrs = {name: self.of(item, inside) for name, item in held.attrs.items()}
        copy.entries = {self._own(at): self.of(item, inside) for at, item in held.entries.items()}
        copy.keys = {self._own(at): self._key(key) for at, key in held.keys.items()}
        copy.items = [self.of(item, inside) for item in held.items]
        copy.open, copy.kind, copy.born = held.open, held.kind, held.born
        copy.sample = self.of(held.sample, inside) if held.sample is not None else None
        copy.role, copy.filled, copy.most = held.role, held.filled, held.most
        copy.key_sample = self._key(held.key_sample) if held.key_sample is not None else None
        return made

    def _key(self, key: Value) -> Value:
        return replace(key, symbol=self._own(key.symbol)) if isinstance(key, SymV) else key

    def _selector(self) -> Selector:
        return elements.selector_of(self.key)


def _is_slice(selector: Selector) -> bool:
    match selector:
        case Interval(lo, hi):
            return hi - lo != 1
        case _:
            return isinstance(selector, SymbolSlice)


def _is_number(symbol: Symbol) -> bool:
    """``int(band[0]) + 1``: what a call or an operator makes of memory, and no part of that."""
    match symbol:
        case symbols.Binary(_, left, right):
            return _is_number(left) or _is_number(right)
        case _:
            return symbols.function_called(symbol) in python.GIVES_NUMBER


def _is_of_any_row(symbol: Symbol, born: Born) -> bool:
    """``int(band[0])`` of a ``band`` that stands for all rows of what was walked, and ``int(band.min())``."""
    if isinstance(symbol, symbols.Memory):
        return symbol.number >= born.buffers or elements.ANY_ROW in symbol.region
    return symbols.has(symbol, symbols.Memory) and any(
        _is_of_any_row(part, born) for part in symbols.parts(symbol)
    )
