"""Devices: which one a value names, and which is current.

Device 0 is taken to be the device that is current at entry, as it is unless the caller selected another.
So a device has an id for ordering, ``"cur"`` for both, and beside it what the code says exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.facts import known_values, places
from streamlint.interp.state import counters, names, symbols
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    ConstV,
    DeviceV,
    EventV,
    MethodV,
    StreamV,
    SymV,
    Value,
    symbol_of,
)
from streamlint.models.operands import ON_CPU
from streamlint.trace import CURRENT_DEVICE, THREAD_DEVICE, BufferId, DeviceId, Evidence, Space

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol

_OF_THREAD = DeviceV(THREAD_DEVICE, "0")
_CURRENT = ("?current", "?cuda")
"""What stands for the current device: ``None``, and ``"cuda"`` without a number."""


def as_device(m: Machine, value: Value) -> DeviceV:
    """The device that an argument names. One of which nothing is known is assumed to be a GPU."""
    value = names.settle(m, value)
    match value:
        case DeviceV():
            return value
        case SymV(symbol) if (first := _first_counted(m, symbol)) is not None and first.id != CURRENT_DEVICE:
            # [Lane(i) for i in range(1, n)] makes the first one on device 1.
            return replace(first, symbol=symbol)
        case ConstV(str() as text):
            return replace(_named(text), passed=value.passed)
        case ConstV(int() as number) if not isinstance(number, bool):
            return numbered(number)
        case ConstV(None):
            return DeviceV("?current")
        case ApiV():
            return _open(symbol_of(value))
        case SymV(symbol) if _has_number(symbol):
            m.numbered = True
            return _open(symbol, Evidence.SHOWN)
        case SymV(symbol):
            return _told(m, symbol)
        case BufferV():
            return of_memory(m, value)
        case _:
            return _open(symbol_of(value))


def another(symbol: Symbol) -> DeviceV | None:
    """The device that ``1`` and ``"cuda:1"`` name; device 0 is no other than the current one."""
    found = _told_by(symbol)
    return found if found is not None and found.id != CURRENT_DEVICE else None


def is_first(symbol: Symbol) -> bool:
    """``"cuda:0"``"""
    return isinstance(symbol, symbols.Const) and symbol.kind is str and _told_by(symbol) == numbered(0)


def _told_by(symbol: Symbol) -> DeviceV | None:
    match symbol:
        case symbols.Const(kind, int() as number) if kind is int and number >= 0:
            return numbered(number)
        case symbols.Const(_, str() as text) if text.startswith("cuda:"):
            return _named(text)
        case _:
            return None


def _first_counted(m: Machine, symbol: Symbol | None) -> DeviceV | None:
    """The device of the first one of those for which something counts: ``[Lane(i) for i in range(n)]``."""
    return _told_by(counters.first(m, symbol)) if symbol and symbols.has(symbol, symbols.Each) else None


def _has_number(symbol: Symbol) -> bool:
    """``f"cuda:{rank}"``"""
    match symbol:
        case symbols.Formatted((str() as first, *_), (_, *_)):
            return first.startswith("cuda:")
        case _:
            return False


def _open(symbol: Symbol, by: Evidence = Evidence.ASSUMED) -> DeviceV:
    """A device of which only is known what names it."""
    return DeviceV(f"?{symbols.text_of(symbol)}", by=by, symbol=symbol)


def _told(m: Machine, symbol: Symbol) -> DeviceV:
    """The device that an unknown value stands for, by what the text says of it."""
    fact = known_values.of_value(m, symbol)
    if fact.space.on_host and fact.residence is Evidence.SHOWN:
        return DeviceV("cpu")
    return _open(symbol, fact.residence if fact.space is Space.DEVICE else Evidence.ASSUMED)


def of_memory(m: Machine, view: BufferV) -> DeviceV:
    """``x.device``: as sure as it is where ``x`` lives."""
    placed = m.buffers[view.id]
    if placed.space.on_host and placed.residence is not Evidence.ASSUMED:
        return DeviceV("cpu", by=placed.residence)
    # (x * 2).device and x[:n].device are x.device: tables have one entry for them.
    first = _first(m, view)
    named = symbols.Attr(first, "device")
    is_known = placed.residence is not Evidence.ASSUMED or not _is_unknown(m, first)
    if is_known and placed.space in (Space.DEVICE, Space.MANAGED):
        return DeviceV(placed.device, by=placed.residence, symbol=named)
    return _open(named)


def _first(m: Machine, view: BufferV) -> Symbol:
    """Whose device it is that a tensor is on."""
    first = m.beside.get(view.id, symbol_of(BufferV(view.id)))
    now = m.roles.get(first)
    return symbol_of(BufferV(now.id)) if isinstance(now, BufferV) else first


def _is_unknown(m: Machine, first: Symbol) -> bool:
    """Whether it is a tensor of which nothing says where it is."""
    return isinstance(first, symbols.Memory) and m.buffers[BufferId(first.number)].space is Space.UNKNOWN


def is_beside(m: Machine, made: BufferV, other: BufferV) -> None:
    """A tensor is on the device of another one: it was computed from that."""
    m.beside[made.id] = _first(m, other)


def is_on(m: Machine, made: BufferV, device: Value) -> None:
    """A tensor was made for a device: ``torch.empty(n, device=x.device)``."""
    match device:
        case DeviceV(symbol=symbols.Attr(of, "device")) | SymV(symbols.Attr(of, "device")):
            m.beside[made.id] = of
        case _:
            pass


def is_named(m: Machine, made: StreamV | EventV | BufferV, device: DeviceV) -> None:
    """A stream, an event or memory was made on a device."""
    if device.symbol is not None:
        m.made_for[symbol_of(made)] = device.symbol


def name_of(m: Machine, made: StreamV | EventV | BufferV) -> Symbol | None:
    """What names the device on which something was made, where that is not known."""
    found = m.made_for.get(symbol_of(made))
    return m.made_for.get(_first(m, made)) if found is None and isinstance(made, BufferV) else found


def has_streams(m: Machine, device: DeviceV) -> None:
    """``torch.cuda.Stream(x.device)`` shows that ``x`` is on a GPU: the host has no streams."""
    match device.symbol:
        case symbols.Attr(symbols.Memory(number) as first, "device"):
            beside = [one for one in m.beside if _first(m, BufferV(one)) is first]
            for one in (BufferId(number), *beside):
                m.lives(BufferV(one), Space.DEVICE, Evidence.SHOWN)
        case _:
            pass


def _named(text: str) -> DeviceV:
    if text.startswith("cpu"):
        return DeviceV("cpu")
    index = text.partition(":")[2]
    by = places.of_text(text).residence
    return numbered(int(index)) if index.isdigit() else DeviceV(f"?{text}", by=by)


def numbered(number: int) -> DeviceV:
    return DeviceV(str(number) if number else CURRENT_DEVICE, str(number))


def of_type(m: Machine, type: Value = NONE, index: Value = NONE, **_other: Value) -> DeviceV:  # noqa: A002
    """``torch.device("cuda", 1)`` is ``torch.device("cuda:1")``, and without a number the current one."""
    device = as_device(m, type)
    number = names.settle(m, index)
    if device.id.startswith("?") and isinstance(number, ConstV) and isinstance(number.value, int):
        return replace(numbered(number.value), by=device.by)
    if device.id in _CURRENT and isinstance(number, SymV):
        m.numbered = True
        return as_device(m, number) if _first_counted(m, number.symbol) else _open(number.symbol, device.by)
    return device


def made(m: Machine, number: Value) -> DeviceV:
    """``Device(1)``; without a number the current one."""
    match number:
        case ConstV(int() as index):
            return numbered(index)
        case (DeviceV() as known) | MethodV(DeviceV() as known, "id"):
            return known
        case SymV(symbol):
            return _told(m, symbol)
        case ConstV(str() as text):
            return _named(text)
        case _:
            return current(m)


def attribute(device: DeviceV, name: str) -> Value | None:
    """``device.type``, and ``device.is_cuda`` and ``device.is_cpu``, which exclude each other; or None."""
    if name == "type" and _is_told(device):
        return ConstV("cpu" if device.is_host else "cuda")
    if name not in ON_CPU:
        return None
    if _is_told(device):
        return ConstV(device.is_host == ON_CPU[name])
    asked = symbols.Attr(device.symbol or symbol_of(device), "is_cuda")
    return SymV(asked if name == "is_cuda" else symbols.negation(asked))


def _is_told(device: DeviceV) -> bool:
    """Whether the code says that it is the host, or a GPU, of whichever number.

    ``torch.device("cuda", rank)``; not ``torch.device(None)``.
    """
    return not device.id.startswith("?") or (device.by is Evidence.SHOWN and device.id != "?current")


def make_default(m: Machine, value: Value) -> None:
    """``torch.set_default_device("cuda")``: what names no device is made there; None is the host.

    What is made on ``meta`` is no memory yet, and no work.
    """
    settled = names.settle(m, value)
    device = as_device(m, settled if settled != NONE else ConstV("cpu"))
    m.default_device = NONE if device == DeviceV("?meta") else device
    m.default_since = m.call


def current(m: Machine) -> DeviceV:
    return DeviceV(m.device, m.exact_device, symbol=m.device_symbol)


def meant(m: Machine, value: Value) -> DeviceV:
    """The device that a call acts on, by its argument or receiver; the current one where it names none."""
    match value:
        case StreamV(number):
            stream = m.streams[number]
            return DeviceV(stream.device, stream.made_on)
        case ConstV(None):
            return current(m)
        case _:
            found = as_device(m, value)
            if not found.id.startswith("?"):
                return _OF_THREAD if _is_of_thread(m, found) else found
            # What is not known is taken to be the current device, as the first of those that are counted is.
            counted = _first_counted(m, found.symbol) is not None
            m.counted_device |= counted
            m.assumed_device |= found.id not in _CURRENT and not counted
            return DeviceV(place(m, found), by=found.by, symbol=found.symbol)


def place(m: Machine, device: DeviceV) -> DeviceId:
    """Where memory lies that is put onto a device. One that is not known is the current one ...

    ... but in a thread whose current device is 0 because nothing was selected there: what the program names
    by a number that is not known is what it works on everywhere else.
    """
    if device.id in _CURRENT:
        return m.device
    if device.id.startswith("?"):
        return CURRENT_DEVICE if m.device == THREAD_DEVICE else m.device
    return m.device if _is_of_thread(m, device) else device.id


def _is_of_thread(m: Machine, device: DeviceV) -> bool:
    return m.device == THREAD_DEVICE and device.exact == _OF_THREAD.exact


def of_new_thread(m: Machine) -> DeviceV:
    """Device 0, whatever is current for who starts the thread.

    It is another one than the program works on where that has selected one that a variable names, or has made
    one of a number that is not known: ``torch.cuda.set_device(rank)``, ``torch.device("cuda", rank)``.
    """
    if m.device_symbol is None and not m.numbered:
        return numbered(0)
    if m.device == CURRENT_DEVICE and _PREMISE not in m.premises:
        m.premises.append(_PREMISE)
    return _OF_THREAD if m.device == CURRENT_DEVICE else numbered(0)


_PREMISE = "the device that the program works on is not device 0"


def select(m: Machine, device: DeviceV) -> None:
    """Makes a device current."""
    m.device, m.exact_device, m.device_symbol = device.id, device.exact, device.symbol


def may_be_selected(m: Machine) -> None:
    """Unseen code got a device, and may make it current: ``platform.set_device(self.device)`` in a thread."""
    if m.device == THREAD_DEVICE:
        select(m, DeviceV(CURRENT_DEVICE))


def of_stream(m: Machine, stream: StreamV) -> DeviceId | None:
    """The device of a stream as the code says it; a default stream is that of the current device."""
    known = m.streams[stream.id]
    return known.made_on if known.span is not None else m.exact_device if known.is_default else None
