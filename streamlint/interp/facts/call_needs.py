"""The calls that an object must have had before one of its methods does anything, by the text of its class.

``push()`` fills what ``start()`` walks, and ``pop()`` takes what ``start()`` has put aside: a method that
uses an attribute which the constructor leaves empty comes after a method that fills it, and one that accepts
a state only (``assert self.state == "started"``, ``State.STARTED``) after a method that sets that state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import assigned_first, decorators
from streamlint.interp.facts.assigned_first import Asked
from streamlint.interp.state.budgets import Most

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

MOST_EARLIER = Most(5, "prepared calls")
"""Calls before the one in question."""


@dataclass(slots=True)
class Uses:
    """What a method does with the attributes of its object, with the methods of its own that it calls."""

    reads: set[str] = field(default_factory=set)
    asked: Asked = field(default_factory=Asked)
    """Which of them it needs, and which it has assigned first itself."""
    grows: set[str] = field(default_factory=set)
    """Attributes of which it fills a part: ``self.queue.append(x)``, ``self.group.events[i] = event``."""
    aside: set[str] = field(default_factory=set)
    """The same by a variable: ``state = self.state``, ``state.rows = n``."""
    sets: set[str] = field(default_factory=set)
    """Attributes that it assigns, and not just empties."""
    states: dict[str, set[str]] = field(default_factory=dict)
    """The texts and members of enumerations that it assigns: ``self.state = "started"``."""
    texts: set[str] = field(default_factory=set)
    """All texts and members in it."""

    @property
    def parts(self) -> set[str]:
        return self.grows | self.aside

    @property
    def fills(self) -> set[str]:
        return self.parts | self.sets

    def include(self, other: Uses) -> None:
        self.reads |= other.reads
        self.grows |= other.grows
        self.aside |= other.aside
        self.sets |= other.sets
        self.texts |= other.texts
        for name, texts in other.states.items():
            self.states.setdefault(name, set()).update(texts)


class Histories:
    """Of the methods of one class, inherited ones too; of each name the class's own comes first."""

    def __init__(
        self,
        inherited: Mapping[str, Sequence[ir.FunctionDecl]],
        public: frozenset[str],
        fillers: frozenset[str],
        is_enumeration: Callable[[str], bool],
        fits: Callable[[int], bool],
    ) -> None:
        """``fits``: whether so many calls before another one are within ``MOST_EARLIER``."""
        self._inherited = inherited
        self._methods = {name: decls[0] for name, decls in inherited.items()}
        self._public = public
        # self.queue.append(x), and self.groups[-1].push(x) of a class that keeps it
        self._fillers = ir.FILLS | fillers
        self._is_enumeration = is_enumeration
        self._fits = fits
        self._known: dict[str, Uses] = {}
        self._reached_names: dict[str, frozenset[str]] = {}

    def before(self, name: str, *, every: bool = False) -> tuple[str, ...]:
        """The methods to call before the one with this name, in order; none if it needs none, or too many.

        Of several that fill the same the first one is taken, or with ``every`` all that fill a part of it.
        """
        order: list[str] = []
        asked: set[str] = set()
        self._require(name, order, asked)
        if every:
            order.pop()
            for other in self._public_names():
                wanted = self._uses(name).reads & self._uses(other).parts
                if wanted and other not in asked and not any(self._is_step(o, other) for o in (name, *order)):
                    self._require(other, order, asked)
            order.append(name)
        return tuple(order[:-1]) if self._fits(len(order) - 1) else ()

    def filled_by(self, name: str) -> tuple[str, ...]:
        """Of the methods before one, those that fill what it takes from: ``return self.queue.get()``."""
        taken = self._uses(name).reads
        return tuple(other for other in self.before(name) if taken & self._uses(other).parts)

    def needs(self, name: str, earlier: str) -> bool:
        """Whether a method uses what only another one has set: by itself it works with what is not known.

        ``def initialize(self): self.model = Model()`` where no constructor is, and ``self.model(x)``; or
        ``self.parts.append(part)``, and ``self.parts[k]`` of a list that the constructor leaves empty.
        """
        uses = self._uses(name)
        return bool(self._uses(earlier).fills & uses.reads - uses.fills - self._uses("__init__").fills)

    def sharing(self, name: str) -> list[str]:
        """The public methods that use what a method needs and only calls set, those that use most first."""
        missing = self._missing(name)
        shared = {
            other: len(missing & self._uses(other).reads) for other in self._public_names() if other != name
        }
        return sorted((other for other in shared if shared[other]), key=lambda other: -shared[other])

    def _missing(self, name: str) -> set[str]:
        """What only others set is empty at first; a constructor that sets an attribute has filled it."""
        uses = self._uses(name)
        return set(uses.asked.needed - uses.grows - self._uses("__init__").fills)

    def _require(self, name: str, order: list[str], asked: set[str]) -> None:
        """Puts a method behind those that it needs."""
        asked.add(name)
        uses = self._uses(name)
        missing = self._missing(name)
        states = self._needed_states(uses)
        while missing or states:
            for done in order:
                missing -= self._uses(done).fills
                reached = {attribute for attribute, _ in self._reached(done, states)}
                states = {state for state in states if state[0] not in reached}
            found = self._best(name, missing, states, asked)
            if found is None:
                break
            self._require(found, order, asked)
        order.append(name)

    def _needed_states(self, uses: Uses) -> set[tuple[str, str]]:
        """The states that a method mentions, where others set them; none if it accepts the first one only."""
        return {
            (attribute, text)
            for attribute, first in self._uses("__init__").states.items()
            if attribute in uses.reads
            for text in uses.texts - first - uses.states.get(attribute, set())
            if any(
                text in self._uses(name).states.get(attribute, ())
                for name in self._public
                if attribute in self._methods[name].names
            )
        }

    def _reached(self, name: str, states: set[tuple[str, str]]) -> set[tuple[str, str]]:
        mine = self._uses(name).states
        return {(attribute, text) for attribute, text in states if text in mine.get(attribute, ())}

    def _best(
        self, name: str, missing: set[str], states: set[tuple[str, str]], asked: set[str]
    ) -> str | None:
        """The public method that provides most of what is missing; a state goes before all."""
        best, most = None, (0, 0)
        wanted = missing.union(attribute for attribute, _ in states)
        for other in self._public_names():
            if other in asked or wanted.isdisjoint(self.reach(other)) or self._is_step(name, other):
                continue
            score = (len(self._reached(other, states)), len(missing & self._uses(other).fills))
            calls_best = best is not None and best in self._methods[other].members
            if score > most or (score == most and calls_best):
                best, most = other, score
        return best

    def _is_step(self, name: str, other: str) -> bool:
        """Whether one of two methods calls the other: then it comes neither before nor after it."""
        return other in self._methods[name].members or name in self._methods[other].members

    def _public_names(self) -> list[str]:
        return [name for name in self._methods if name in self._public and name != "__init__"]

    def reach(self, name: str) -> frozenset[str]:
        """The names that a method mentions, with those of the methods that it mentions."""
        known = self._reached_names.get(name)
        if known is None:
            method = self._methods[name]
            self._reached_names[name] = method.names
            inside = (self.reach(other) for other in method.members & self._methods.keys())
            known = self._reached_names[name] = method.names.union(*inside)
        return known

    def _uses(self, name: str) -> Uses:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = Uses()
            for decl in self._inherited.get(name, ()):
                self._look(decl, known)
                if "super" not in decl.names:
                    break
        return known

    def _look(self, decl: ir.FunctionDecl, uses: Uses) -> None:
        function = ir.code_of(decl)
        if function is None or not function.params or decorators.is_static(decl):
            return
        uses.asked = uses.asked.with_base(assigned_first.of_method(function, self._asked_by))
        receiver = function.params[0].name
        written: set[int] = set()
        held_by = _variables(function, receiver)
        for node in ir.walk(function.body):
            match node:
                case ir.Assign(targets=targets, value=value):
                    for target in _targets(targets):
                        self._assigned(uses, target, value, receiver, written)
                        if not (isinstance(target, ir.Name) or _is_nothing(value)):
                            uses.aside |= held_by.get(_variable_of(target), set())
                case ir.Call(func=ir.Attr(value=held, name=called)) if called in self._fillers:
                    owner = _attribute_of(held, receiver)
                    if owner is not None:
                        uses.grows.add(owner)
                    uses.aside |= held_by.get(_variable_of(held), set())
                case ir.Attr(value=ir.Name(id=owner), name=attribute) if owner == receiver:
                    if attribute in self._methods:
                        if attribute != "__init__":
                            uses.include(self._uses(attribute))
                    elif id(node) not in written:
                        uses.reads.add(attribute)
                case ir.Const() | ir.Attr() if (text := self._state(node)) is not None:
                    uses.texts.add(text)
                case _:
                    pass

    def _asked_by(self, name: str) -> Asked | None:
        return self._uses(name).asked if name in self._methods else None

    def _state(self, e: ir.Expr) -> str | None:
        """A state as code names it: ``"started"``, ``State.STARTED``."""
        match e:
            case ir.Const(value=str() as text):
                return text
            case ir.Attr(value=ir.Name(id=owner), name=name) if self._is_enumeration(owner):
                return f"{owner}.{name}"
            case _:
                return None

    def _assigned(
        self, uses: Uses, target: ir.Expr, value: ir.Expr, receiver: str, written: set[int]
    ) -> None:
        match target:
            case ir.Attr(value=ir.Name(id=owner), name=attribute) if owner == receiver:
                written.add(id(target))
                state = self._state(value)
                if state is not None:
                    uses.states.setdefault(attribute, set()).add(state)
                elif not _is_empty(value):
                    uses.sets.add(attribute)
            case ir.Attr() | ir.Index():
                held = _attribute_of(target, receiver)
                if held is not None:
                    uses.grows.add(held)
            case _:
                pass


def _targets(targets: tuple[ir.Expr, ...]) -> Iterator[ir.Expr]:
    for target in targets:
        if isinstance(target, ir.Seq):
            yield from _targets(target.items)
        else:
            yield target


def _attribute_of(e: ir.Expr, receiver: str) -> str | None:
    """``queue`` of ``self.queue``, ``self.queue[i]`` and ``self.queue[i].events``."""
    while isinstance(e, (ir.Attr, ir.Index)):
        if isinstance(e, ir.Attr) and isinstance(e.value, ir.Name):
            return e.name if e.value.id == receiver else None
        e = e.value
    return None


def _variables(function: ir.Function, receiver: str) -> dict[str, set[str]]:
    """The attributes of which variables hold a part: ``state = self.state``, ``for slot in self.slots``."""
    found: dict[str, set[str]] = {}
    for node in ir.walk(function.body):
        match node:
            case (
                ir.Assign(targets=(ir.Name(id=name),), value=value)
                | ir.For(target=ir.Name(id=name), iter=value)
            ) if (attribute := _attribute_of(value, receiver)) is not None:
                found.setdefault(name, set()).add(attribute)
            case _:
                pass
    return found


def _variable_of(e: ir.Expr) -> str:
    """``state`` of ``state.rows`` and ``state.done[i]``"""
    while isinstance(e, (ir.Attr, ir.Index)):
        e = e.value
    return e.id if isinstance(e, ir.Name) else ""


def _is_empty(value: ir.Expr) -> bool:
    """``None``, ``False``, ``0``, ``[]``, ``Group()``, ``[None] * n``: nothing has been put there yet."""
    match value:
        case ir.Call(func=ir.Name() | ir.Attr(value=ir.Name()), args=()):
            return True
        case ir.Seq(items=items):
            return all(_is_empty(item) for item in items)
        case ir.Binary(op="*", left=left):
            return isinstance(left, ir.Seq) and _is_empty(left)
        case _:
            return _is_nothing(value)


def _is_nothing(value: ir.Expr) -> bool:
    """The same without calls: ``slot.rows = batch.numel()`` puts something there."""
    match value:
        case ir.Const(value=None | False | 0):
            return True
        case ir.Seq(items=items) | ir.DictDisplay(items=items):
            return not items
        case _:
            return False
