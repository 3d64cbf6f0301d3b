"""What functions write, by name: a text is walked once, however often it is asked.

A path asks for a name again at each use of it, and every path of every entry asks anew.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from streamlint import ir
from streamlint.frozen import frozen
from streamlint.interp.state.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from streamlint.interp.state.project import Project
    from streamlint.interp.state.scope import Scope
    from streamlint.source import Span


@frozen()
class Written:
    value: ir.Expr
    inside: bool
    """Whether a function does it that is defined inside of the text."""


@frozen()
class Writes:
    """What a text assigns and returns, each in its order."""

    names: dict[str, list[Written]] = field(default_factory=dict)
    attributes: dict[tuple[str, str], list[Written]] = field(default_factory=dict)
    """``self.side = ...``, by both names."""
    walked: dict[str, list[ir.Expr]] = field(default_factory=dict)
    """What loops and comprehensions give to a name: ``for i in range(n)``, an element of ``range(n)``."""
    returned: list[ir.Expr] = field(default_factory=list)
    """Not by functions inside."""

    def assigned(self, name: str) -> list[ir.Expr]:
        """What the text itself assigns to a name."""
        return [one.value for one in self.names.get(name, ()) if not one.inside]


_WRITES: Kept[Span, Writes] = Kept()


def of_function(project: Project, function: ir.Function) -> Writes:
    return project.once(_WRITES, function.span, lambda: of_text(function.body))


def of_text(body: tuple[ir.Stmt, ...]) -> Writes:
    writes = Writes()
    for node, inside in _nodes(body, inside=False):
        match node:
            case ir.Assign(targets=(ir.Name() | ir.Attr() as target,), value=value):
                _note(writes, target, Written(value, inside))
            case ir.Assign(targets=(ir.Seq(items=items),), value=value):
                for position, item in enumerate(items):
                    if _is_first(items, position):
                        _note(writes, item, Written(_part(value, position, len(items)), inside))
            case ir.Bind(name=name, value=value):
                writes.names.setdefault(name, []).append(Written(value, inside))
            case ir.Return(value=value) if value is not None and not inside:
                writes.returned.append(value)
            case ir.For(target=target, iter=source) if not inside:
                _walk(writes, target, source)
            case ir.Comprehension(generators=generators) if not inside:
                for one in generators:
                    _walk(writes, one.target, one.iter)
            case _:
                pass
    return writes


def on_receiver(project: Project, scope: Scope, name: str, *, inside: bool = True) -> list[ir.Expr]:
    """What ``self.name = ...`` or ``self.name, self.other = ...`` puts there."""
    if scope.receiver is None:
        return []
    found = of_function(project, scope.function).attributes.get((scope.receiver, name), ())
    return [one.value for one in found if inside or not one.inside]


def to_name(project: Project, scope: Scope, name: str) -> list[ir.Expr]:
    """What a function, and those inside of it, assign to a name."""
    return [one.value for one in of_function(project, scope.function).names.get(name, ())]


def before(project: Project, scope: Scope, name: ir.Name) -> list[ir.Expr]:
    """The same where the name is used: what it gets of that use, or in another arm, is none of these.

    ``loader = DataLoader(rows)``, and then ``loader = Prefetching(loader)``.
    """
    use = (name.span.line, name.span.col)
    every = to_name(project, scope, name.id)
    earlier = [one for one in every if (one.span.end_line, one.span.end_col) <= use]
    if not earlier:
        return [one for one in every if (one.span.line, one.span.col) > use]
    if len(earlier) == 1:
        return earlier
    arms = dict(_arms_around(project, scope.function, name))
    return [one for one in earlier if not _is_apart(arms, _arms_around(project, scope.function, one))]


def _is_apart(arms: Mapping[int, int], others: Iterable[tuple[int, int]]) -> bool:
    """Whether a test decides which of two expressions is run."""
    return any(arms.get(test, arm) != arm for test, arm in others)


_Arms: TypeAlias = "tuple[tuple[int, int], ...]"
"""The first and the last line of each arm of a test."""
_TESTS: Kept[Span, tuple[_Arms, ...]] = Kept()
_ARMS: Kept[Span, tuple[tuple[int, int], ...]] = Kept()


def _arms_around(project: Project, function: ir.Function, e: ir.Expr) -> tuple[tuple[int, int], ...]:
    """The arms of tests in which an expression stands, by the number of the test in its function."""

    def tests() -> tuple[_Arms, ...]:
        nodes = (node for node in ir.walk(function.body, functions=True) if isinstance(node, ir.If))
        return tuple((_lines(node.body), _lines(node.orelse)) for node in nodes)

    def find() -> tuple[tuple[int, int], ...]:
        known: tuple[_Arms, ...] = project.once(_TESTS, function.span, tests)
        return tuple(
            (test, arm)
            for test, arms in enumerate(known)
            for arm, (first, last) in enumerate(arms)
            if first <= e.span.line <= last
        )

    return project.once(_ARMS, e.span, find)


def _lines(arm: tuple[ir.Stmt, ...]) -> tuple[int, int]:
    """Those of an arm; of none, no line. The span of a statement may be its first line alone."""
    if not arm:
        return (0, -1)
    spans = (getattr(node, "span", None) for node in ir.walk(arm, functions=True))
    return (arm[0].span.line, max(span.end_line for span in spans if span is not None))


def _note(writes: Writes, target: ir.Expr, written: Written) -> None:
    match target:
        case ir.Name(id=name):
            writes.names.setdefault(name, []).append(written)
        case ir.Attr(value=ir.Name(id=owner), name=name):
            writes.attributes.setdefault((owner, name), []).append(written)
        case _:
            pass


def _walk(writes: Writes, target: ir.Expr, source: ir.Expr) -> None:
    match target, source:
        case ir.Name(id=name), _:
            writes.walked.setdefault(name, []).append(_element(source))
        case ir.Seq(items=(count, item)), ir.Call(func=ir.Name(id="enumerate"), args=(given, *_)):
            _walk(writes, count, ir.Call(source.span, ir.Name(source.span, "range"), ()))
            _walk(writes, item, given.value)
        case ir.Seq(items=items), ir.Call(func=ir.Name(id="zip"), args=given) if len(items) == len(given):
            for item, one in zip(items, given, strict=True):
                _walk(writes, item, one.value)
        case ir.Seq(items=items), _:
            for item in items:
                _walk(writes, item, _element(source))
        case _:
            pass


def _part(value: ir.Expr, position: int, count: int) -> ir.Expr:
    """What stands at a place of several: ``Queue()`` of ``self.asked, self.done = Queue(), deque()``."""
    match value:
        case ir.Seq(items=items) if len(items) == count and not any(
            isinstance(one, ir.Star) for one in items
        ):
            return items[position]
        case _:
            return ir.Index(value.span, value, ir.Const(value.span, position))


def _element(source: ir.Expr) -> ir.Expr:
    return ir.Index(source.span, source, ir.Name(source.span, ""))


def _is_first(items: tuple[ir.Expr, ...], position: int) -> bool:
    """``x, x = pair``: one of them counts."""
    return written_name(items[position]) not in map(written_name, items[:position])


def written_name(target: ir.Expr) -> tuple[str, ...] | None:
    """A place as it is written: ``("x",)``, ``("self", "x")``."""
    match target:
        case ir.Name(id=name):
            return (name,)
        case ir.Attr(value=ir.Name(id=owner), name=name):
            return (owner, name)
        case _:
            return None


def _nodes(body: tuple[ir.Stmt, ...], *, inside: bool) -> Iterator[tuple[object, bool]]:
    for node in ir.walk(body):
        yield node, inside
        if isinstance(node, (ir.FunctionDef, ir.Lambda)):
            yield from _nodes(node.function.body, inside=True)
