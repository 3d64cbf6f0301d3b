"""Which tests choose between arms that may have to do with streams, by the names that stand in the arms.

As long as no path of an entry has anything to order, another path is worth its time only where it may bring
something: ``if self.side is not None: self.side.wait_stream(current)`` may, ``if verbose: print(x)`` may not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from streamlint import ir
from streamlint.frozen import frozen
from streamlint.interp.facts import relevance, touching
from streamlint.interp.state.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.project import Project
    from streamlint.source import Span

Test: TypeAlias = ir.If | ir.While | ir.Choice | ir.Match

_TELL: Kept[Span, bool] = Kept()
_NAMES: Kept[str, frozenset[str]] = Kept()
"""By the names of modules."""
_DECIDING: Kept[Span, frozenset[str]] = Kept()
"""By the places of functions."""
_INNER: Kept[Span, frozenset[str]] = Kept()
"""The same."""
_ASKS: Kept[Span, dict[str, list[Asks]]] = Kept()
"""The same: tests by the variables that they ask of."""


def tell(project: Project, module: str, test: Test, function: ir.Function | None) -> bool:
    """Whether an arm uses a name that tells of streams, or that of a function which leads to them.

    Or whether it gives a variable of the function what another test asks of that ends the call.
    """
    return project.once(_TELL, test.span, lambda: _tell(project, module, test, function))


def say(project: Project, module: str, code: object, function: ir.Function | None) -> bool:
    """Whether code uses a name that tells of streams, or that of a function which leads to them."""
    names = project.once(_NAMES, module, lambda: _names(project, module))
    inner: frozenset[str] = frozenset()
    if function is not None:
        inner = project.once(_INNER, function.span, lambda: _inner(project, function))
    known = names | inner
    return any(_name(node) in known for node in ir.walk(code, functions=True))


def _tell(project: Project, module: str, test: Test, function: ir.Function | None) -> bool:
    arms = test.cases if isinstance(test, ir.Match) else (test.body, test.orelse)
    if say(project, module, arms, function):
        return True
    if function is None:
        return False
    deciding = project.once(_DECIDING, function.span, lambda: _deciding(function))
    return not deciding.isdisjoint(_assigned(arms))


def _inner(project: Project, function: ir.Function) -> frozenset[str]:
    """Functions inside of it that lead to streams: ``def flush(): dist.all_reduce(x, async_op=True)``."""
    inner = (node.function for node in ir.walk(function.body) if isinstance(node, ir.FunctionDef))
    return frozenset(one.name for one in inner if say(project, one.module, one.body, None))


@frozen()
class Asks:
    """A test that asks of a variable."""

    test: ir.If | ir.Choice
    denied: bool
    """Whether its arm is run where the variable is false: ``if not narrow: ...``."""


def asks_later(project: Project, function: ir.Function, s: ir.Assign) -> Asks | None:
    """The first test behind a statement that asks of the variable which it sets: ``if wide: ...``."""
    if len(s.targets) != 1 or not isinstance(target := s.targets[0], ir.Name):
        return None
    tests = project.once(_ASKS, function.span, lambda: _asks(function)).get(target.id, ())
    return next((one for one in tests if one.test.span.line > s.span.line), None)


def _asks(function: ir.Function) -> dict[str, list[Asks]]:
    found: dict[str, list[Asks]] = {}
    for node in ir.walk(function.body):
        if isinstance(node, (ir.If, ir.Choice)):
            for name, denied in _asked_in(node.test, denied=False):
                found.setdefault(name, []).append(Asks(node, denied))
    return found


def _asked_in(test: ir.Expr, *, denied: bool) -> Iterator[tuple[str, bool]]:
    match test:
        case ir.Name(id=name):
            yield name, denied
        case ir.Unary(op="not", operand=operand):
            yield from _asked_in(operand, denied=not denied)
        case ir.Boolean(operands=operands):
            for operand in operands:
                yield from _asked_in(operand, denied=denied)
        case _:
            pass


def _deciding(function: ir.Function) -> frozenset[str]:
    """The variables of which a test asks that ends the call before all else is done.

    ``source = None``, then ``for x in tensors: if x.is_cuda: source = x.device``, and ``if source is None:
    return``: whether anything is done behind that, the arm in the loop decides.
    """
    tests = (node for node in ir.walk(function.body) if isinstance(node, ir.If) and _returns(node))
    asked = {node.id for each in tests for node in ir.walk(each.test) if isinstance(node, ir.Name)}
    return frozenset(asked & _assigned(function.body))


def _returns(test: ir.If) -> bool:
    return any(arm and isinstance(arm[-1], ir.Return) for arm in (test.body, test.orelse))


def _assigned(within: object) -> set[str]:
    targets = (node.targets for node in ir.walk(within) if isinstance(node, ir.Assign))
    return {target.id for some in targets for target in some if isinstance(target, ir.Name)}


def _name(node: object) -> str:
    match node:
        case ir.Name(id=name) | ir.Attr(name=name) | ir.Arg(keyword=str() as name):
            return name
        case _:
            return ""


def _names(project: Project, name: str) -> frozenset[str]:
    module = project.module(name)
    if module is None:
        return frozenset()
    return touching.told_in(project, module) | relevance.relevant(project, module).names
