"""What tells one unknown value from another: the closed union ``Symbol``, never a text.

``self.lanes[k].stream`` is ``Attr(Item(Attr(Name("self"), "lanes"), ...), "stream")``. Equal symbols are one
object: to compare two, or to look one up, costs nothing, however long the expression is. ``text_of`` tells
for messages what a symbol stands for; nothing takes that text apart again.
"""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from streamlint.frozen import frozen
from streamlint.interp.state.budgets import LIMITS, short
from streamlint.interp.state.once import Once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint.trace import Region

Plain: TypeAlias = "int | float | complex | str | bytes | bool | None"


class _Symbol(metaclass=Once):
    __slots__ = ("__weakref__", "_kinds", "_owner", "_taken", "_text")

    _kinds: int
    """Which kinds of symbols it is made of, its own too: a bit for each."""
    _owner: Symbol | None
    """See ``owner``."""
    _taken: Symbol | None
    """See ``taken_from``."""

    def _complete(self, parts: tuple[Any, ...]) -> None:
        self._kinds = _kinds_in(type(self), parts)
        self._owner = parts[0] if type(self) in _OWNED else None
        self._taken = _taken_from(parts[0]) if type(self) in _PARTS_OF else None


@frozen(eq=False)
class Param(_Symbol):
    """What unseen code passes in a call from outside; ``rest``: what ``*name`` takes."""

    call: int
    name: str
    rest: bool


@frozen(eq=False)
class Local(_Symbol):
    """A variable or a parameter of a function of the tree that nothing shows the value of."""

    function: str
    name: str


@frozen(eq=False)
class Name(_Symbol):
    """A name outside of functions, with dots: a variable of a module, what a library has, ``self``."""

    path: str


@frozen(eq=False)
class Const(_Symbol):
    """A number or a text; ``kind`` tells ``1`` from ``True``."""

    kind: type
    value: Plain


@frozen(eq=False)
class Thing(_Symbol):
    """A stream, an event, a graph, a callback or an object of the path."""

    kind: str
    number: int | str


@frozen(eq=False)
class Memory(_Symbol):
    """A view of a buffer of the path."""

    number: int
    region: Region


@frozen(eq=False)
class Attr(_Symbol):
    of: Symbol
    name: str


@frozen(eq=False)
class Item(_Symbol):
    of: Symbol
    at: Symbol


@frozen(eq=False)
class Spread(_Symbol):
    """What ``*of`` passes to a call."""

    of: Symbol


@frozen(eq=False)
class Each(_Symbol):
    """The index that stands for all."""


@frozen(eq=False)
class Slice(_Symbol):
    lo: Symbol | None
    hi: Symbol | None
    step: Symbol | None


@frozen(eq=False)
class Tuple(_Symbol):
    items: tuple[Symbol, ...]


@frozen(eq=False)
class Call(_Symbol):
    """What a call gives that gives the same for the same, such as ``len(xs)``."""

    func: Symbol
    args: tuple[Symbol, ...]


@frozen(eq=False)
class Unary(_Symbol):
    op: str
    of: Symbol


@frozen(eq=False)
class Binary(_Symbol):
    op: str
    left: Symbol
    right: Symbol


@frozen(eq=False)
class Compare(_Symbol):
    """Never ``!=`` and its kin, which are negations."""

    op: str
    left: Symbol
    right: Symbol


@frozen(eq=False)
class Not(_Symbol):
    """The opposite of an unknown condition; never of an opposite."""

    of: Symbol


@frozen(eq=False)
class Formatted(_Symbol):
    """An f-string: the texts around its values, and these."""

    around: tuple[Plain, ...]
    values: tuple[Symbol, ...]


@frozen(eq=False)
class Function(_Symbol):
    """A function of the tree, as one activation of the function around it made it."""

    path: str
    line: int
    col: int
    made_in: int
    receiver: Symbol | None


@frozen(eq=False)
class Fresh(_Symbol):
    """What equals no other: ``what`` gave it, at a place, in a turn of it, and in a call from outside."""

    what: Symbol
    path: str
    line: int
    col: int
    turn: int
    call: int
    depth: int


Symbol: TypeAlias = (
    Param
    | Local
    | Name
    | Const
    | Thing
    | Memory
    | Attr
    | Item
    | Spread
    | Each
    | Slice
    | Tuple
    | Call
    | Unary
    | Binary
    | Compare
    | Not
    | Formatted
    | Function
    | Fresh
)
_PARTS = {
    kind: tuple(field.name for field in fields(kind) if "Symbol" in str(field.type))
    for kind in get_args(Symbol)
}
"""The fields of each kind that hold symbols."""
_PLACES = {
    kind: tuple(place for place, field in enumerate(fields(kind)) if field.name in names)
    for kind, names in _PARTS.items()
}
"""Their numbers."""
_BITS = {kind: 1 << number for number, kind in enumerate(_PARTS)}
_OWNED = frozenset({Attr, Item, Call, Fresh})
"""What has the symbol, or gave it, is the first field of these."""
_PARTS_OF = frozenset({Attr, Item})
"""Parts of what has them."""


def parts(symbol: Symbol) -> Iterator[Symbol]:
    """The symbols that one is directly made of."""
    for name in _PARTS[type(symbol)]:
        value = getattr(symbol, name)
        if isinstance(value, tuple):
            yield from value
        elif value is not None:
            yield value


def _kinds_in(kind: type, values: tuple[Any, ...]) -> int:
    found = _BITS[kind]
    for place in _PLACES[kind]:
        value = values[place]
        if isinstance(value, tuple):
            for part in value:
                found |= part._kinds
        elif value is not None:
            found |= value._kinds
    return found


EACH = Each()
NOTHING = Const(type(None), None)
SELF = Name("self")


def constant(value: Plain) -> Const:
    return Const(type(value), value)


def element(base: Symbol, at: Symbol) -> Item:
    """``xs[at]``: the first element of ``bounds[1:]`` is the second one of ``bounds``."""
    match base:
        case Item(of, Slice(lo, _, None)):
            first, behind = 0 if lo is None else number(lo), number(at)
            if first is not None and behind is not None:
                return Item(of, constant(first + behind))
    return Item(base, at)


def number(symbol: Symbol) -> int | None:
    """The place in a list that an index names."""
    match symbol:
        case Const(kind, int() as at) if kind is int and at >= 0:
            return at
        case _:
            return None


def formatted(around: tuple[Plain, ...], values: tuple[Symbol, ...]) -> Const | Formatted:
    """An f-string; a text where its values are known."""
    plain = [str(value.value) for value in values if isinstance(value, Const)]
    texts = [text for text in around if isinstance(text, str)]
    if len(plain) < len(values) or not len(texts) == len(around) == len(plain) + 1:
        return Formatted(around, values)
    return constant(texts[0] + "".join(value + text for value, text in zip(plain, texts[1:], strict=True)))


def call(name: str, *args: Symbol) -> Call:
    return Call(Name(name), args)


# ----------------------------------------------------------------------------- what is in a symbol


def owner(symbol: Symbol) -> Symbol | None:
    """What has it as an attribute or an element, or gave it when it was called."""
    return symbol._owner


taken_from: Callable[[Symbol], Symbol | None] = attrgetter("_taken")
"""The object that it is a part of, if code got that from an iterator: ``next(batches)`` of its ``.lens``.

Nobody but the code at hand is taken to hold that. It is asked of all that a path knows, at each statement.
"""


def _taken_from(whole: Symbol) -> Symbol | None:
    """The same of what ``whole`` has."""
    if type(whole) is Fresh:
        return whole if function_called(whole) == "next" else None
    return whole._taken


def owners(symbol: Symbol) -> Iterator[Symbol]:
    """What it is reached from, the nearest first: ``batch.lens`` and ``batch`` of ``batch.lens[0]``."""
    above = symbol._owner
    while above is not None:
        yield above
        above = above._owner


def is_under(symbol: Symbol, whole: Symbol) -> bool:
    """Whether it is reached from an attribute of another one: asked of all that a path has come by."""
    if whole._kinds & ~symbol._kinds:
        return False
    here = symbol
    while (above := here._owner) is not None:
        if above is whole and isinstance(here, Attr):
            return True
        here = above
    return False


def contains(symbol: Symbol, part: Symbol) -> bool:
    """Whether it is another one, or made of that."""
    if symbol is part:
        return True
    return not part._kinds & ~symbol._kinds and any(contains(one, part) for one in parts(symbol))


def last_name(symbol: Symbol) -> str:
    """``stream`` of ``self.pool.stream``; nothing for what has no name of its own."""
    match symbol:
        case Attr(_, name) | Param(_, name) | Local(_, name):
            return name
        case Name(path):
            return path.rpartition(".")[2]
        case _:
            return ""


def said(symbol: Symbol) -> str:
    """The same, also for an element: ``streams`` of ``self.streams[0]``."""
    while isinstance(symbol, Item):
        symbol = symbol.of
    return last_name(symbol)


def has(symbol: Symbol, *kinds: type) -> bool:
    """Whether it is of one of these kinds, or a symbol in it is."""
    wanted = _WANTED.get(kinds)
    if wanted is None:
        wanted = _WANTED[kinds] = sum(_BITS[kind] for kind in kinds)
    return bool(symbol._kinds & wanted)


_WANTED: dict[tuple[type, ...], int] = {}
"""The bits of the kinds that are asked for together."""


def is_computed(symbol: Symbol) -> bool:
    """Whether an operator or a call has a part in it: it is more than a name, an attribute or an element."""
    return bool(symbol._kinds & _COMPUTED)


_COMPUTED = sum(_BITS[kind] for kind in (Memory, Tuple, Call, Unary, Binary, Compare, Formatted))


def is_made(symbol: Symbol) -> bool:
    """Whether something that is made anew each time has a part in it."""
    return has(symbol, Fresh, Function)


def function_called(symbol: Symbol) -> str:
    """``len`` of ``len(xs)``, whether it gives the same each time or not; nothing for what is no call."""
    match symbol:
        case Call(Name(path), _) | Fresh(Call(Name(path), _)):
            return path
        case _:
            return ""


def last_called(symbol: Symbol) -> str:
    """``len`` of ``builtins.len(xs)``"""
    return function_called(symbol).rpartition(".")[2]


def root(symbol: Symbol) -> Symbol:
    """Where it begins: ``self`` of ``self.lanes[0]``."""
    *_, first = symbol, *owners(symbol)
    return first


# ----------------------------------------------------------------------------- conditions


def negation(symbol: Symbol) -> Symbol:
    """The opposite of an unknown condition."""
    return symbol.of if isinstance(symbol, Not) else Not(symbol)


def question(symbol: Symbol) -> tuple[Symbol, bool]:
    """What an unknown condition asks, and whether it is the opposite: ``not ready`` asks ``ready``.

    ``while len(page)`` asks what ``if page`` and ``if bool(page)`` do.
    """
    match symbol:
        case Not(of):
            return of, True
        case Call(Name("len" | "bool"), (of,)):
            return of, False
        case _:
            return symbol, False


# ----------------------------------------------------------------------------- messages


def text_of(symbol: Symbol) -> str:
    """What a symbol stands for, as Python would write it; one that is too long is cut."""
    text: str | None = getattr(symbol, "_text", None)
    waiting = [] if text is not None else [symbol]
    while waiting:
        one = waiting[-1]
        missing = [part for part in parts(one) if not hasattr(part, "_text")]
        if missing:
            waiting += missing
            continue
        text = short(_written(one))
        object.__setattr__(one, "_text", text)
        waiting.pop()
    return text or ""


def _written(symbol: Symbol) -> str:
    match symbol:
        case Attr(of, name):
            return f"{text_of(of)}.{name}"
        case Fresh(what, _, line, col, turn, call_, depth):
            where = f"@{line}:{col}" if line else ""
            return f"{text_of(what)}{where}#{turn}.{call_}.{depth}"
        case Param(call, name, rest):
            return f"{'*' if rest else ''}{call}:{name}"
        case Local(function, name):
            return f"{function}:{name}"
        case Name(path):
            return path
        case Const(_, int() as large) if large.bit_length() > LIMITS.text:
            # Python does not write down as many digits.
            return hex(large)
        case Const(_, value):
            return repr(value)
        case Thing(kind, number):
            return f"{kind}{number}"
        case Memory(number, region):
            return f"buffer{number}{region}"
        case Item(of, at):
            return f"{text_of(of)}[{text_of(at)}]"
        case Spread(of):
            return f"*{text_of(of)}"
        case Each():
            return "each"
        case Slice(lo, hi, step):
            return ":".join("" if part is None else text_of(part) for part in (lo, hi, step))
        case Tuple(items):
            return f"({_listed(items)})"
        case Call(func, args):
            return f"{text_of(func)}({_listed(args)})"
        case Unary(op, of):
            return f"({op}{text_of(of)})"
        case Binary(op, left, right):
            return f"({text_of(left)}{op}{text_of(right)})"
        case Compare(op, left, right):
            return f"({text_of(left)} {op} {text_of(right)})"
        case Not(of):
            return f"not {text_of(of)}"
        case Formatted(around, values):
            return f"f{'{}'.join(map(str, around))!r}({_listed(values)})"
        case Function(path, line, col, made_in, receiver):
            made = f"{path}@{line}:{col}#{made_in}"
            return made if receiver is None else f"{text_of(receiver)}.{made}"


def _listed(symbols: tuple[Symbol, ...]) -> str:
    return ",".join(map(text_of, symbols))
