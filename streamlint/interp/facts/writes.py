"""What functions write, by name: a text is walked once, however often it is asked.

A path asks for a name again at each use of it, and every path of every entry asks anew.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import frozen
from streamlint.interp.state.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
    tests = [node for node in ir.walk(scope.function.body, functions=True) if isinstance(node, ir.If)]
    return [one for one in earlier if len(earlier) == 1 or not _in_two_arms(tests, name, one)]


def _in_two_arms(tests: Iterable[ir.If], one: ir.Expr, other: ir.Expr) -> bool:
    """Whether a test decides which of two expressions is run."""
    for test in tests:
        arms = [set(map(id, ir.walk(arm, functions=True))) for arm in (test.body, test.orelse)]
        places = [{number for number, arm in enumerate(arms) if id(each) in arm} for each in (one, other)]
        if all(places) and places[0].isdisjoint(places[1]):
            return True
    return False


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
