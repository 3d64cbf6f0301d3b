"""What a method reads of its object before it has assigned that itself, along its text.

``self.at = self.slots[k]``, then ``self.at.record()``: of the two only ``slots`` must be there when it is
called.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from streamlint import ir
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@frozen()
class Asked:
    """What a method does with the attributes of its object, with the methods of its own that it calls."""

    needed: frozenset[str] = frozenset()
    """Those that it reads on some way before it has assigned them."""
    given: frozenset[str] = frozenset()
    """Those that it has assigned on every way to its end."""

    def with_base(self, other: Asked) -> Asked:
        """With the method of the same name that ``super()`` has."""
        return Asked(self.needed | other.needed, self.given | other.given)


def of_method(function: ir.Function, step: Callable[[str], Asked | None]) -> Asked:
    """``step`` has what another method of the object does, and None for what is no method."""
    text = _Text(function.params[0].name, step)
    end = text.through(function.body, frozenset())
    return Asked(frozenset(text.needed), _of_all(end, *text.ends) or frozenset())


_Given: TypeAlias = "frozenset[str]"
"""What has been assigned on every way to a place."""


@dataclass(slots=True)
class _Text:
    receiver: str
    step: Callable[[str], Asked | None]
    needed: set[str] = field(default_factory=set)
    ends: list[_Given] = field(default_factory=list)
    """What is given where a ``return`` ends the method."""

    def through(self, body: Iterable[ir.Stmt], given: _Given) -> _Given | None:
        """What is given behind statements; None where no way leads there."""
        for statement in body:
            behind = self._behind(statement, given)
            if behind is None:
                return None
            given = behind
        return given

    def _behind(self, statement: ir.Stmt, given: _Given) -> _Given | None:
        match statement:
            case ir.Assign(targets=targets, value=value):
                return self._assign(targets, self._read(value, given))
            case ir.If(test=test, body=body, orelse=orelse):
                given = self._read(test, given)
                return _of_all(self.through(body, given), self.through(orelse, given))
            case ir.While(test=head, body=body, orelse=orelse) | ir.For(iter=head, body=body, orelse=orelse):
                given = self._read(head, given)
                self.through(body, given)
                return self.through(orelse, given)
            case ir.With(items=items, body=body):
                for item in items:
                    given = self._read(item.context, given)
                return self.through(body, given)
            case ir.Try(body=body, handlers=handlers, orelse=orelse, final=final):
                whole = self.through(body, given)
                whole = whole if whole is None else self.through(orelse, whole)
                behind = _of_all(whole, *(self.through(handler.body, given) for handler in handlers))
                ends = self.through(final, given if behind is None else behind)
                return None if behind is None else ends
            case ir.Match(subject=subject, cases=cases):
                given = self._read(subject, given)
                return _of_all(given, *(self.through(case.body, given) for case in cases))
            case ir.Return(value=value):
                self.ends.append(self._read(value, given))
                return None
            case ir.Raise() | ir.Jump():
                self._read(ir.children(statement), given)
                return None
            case ir.Declare() | ir.FunctionDef() | ir.ClassDef():
                return given
            case _:
                return self._read(ir.children(statement), given)

    def _assign(self, targets: Iterable[ir.Expr], given: _Given) -> _Given:
        for target in targets:
            match target:
                case ir.Attr(value=ir.Name(id=self.receiver), name=name):
                    given |= {name}
                case ir.Seq(items=items):
                    given = self._assign(items, given)
                case _:
                    given = self._read(target, given)
        return given

    def _read(self, node: object, given: _Given) -> _Given:
        """What is given behind an expression, of which all parts are read."""
        match node:
            case ir.Call(func=ir.Attr(value=ir.Name(id=self.receiver), name=name) as func, args=args):
                given = self._read(args, given)
                asked = self.step(name)
                if asked is None:
                    return self._read(func, given)
                self.needed |= asked.needed - given
                return given | asked.given
            case ir.Attr(value=ir.Name(id=self.receiver), name=name):
                asked = self.step(name)
                self.needed |= (frozenset({name}) if asked is None else asked.needed) - given
                return given
            case ir.Choice() | ir.Boolean() | ir.Comprehension():
                for part in ir.children(node):
                    self._read(part, given)
                return given
            case ir.Lambda():
                return given
            case _:
                for part in ir.children(node):
                    given = self._read(part, given)
                return given


def _of_all(*ends: _Given | None) -> _Given | None:
    """What is given where several ways meet."""
    known = [end for end in ends if end is not None]
    return frozenset.intersection(*known) if known else None
