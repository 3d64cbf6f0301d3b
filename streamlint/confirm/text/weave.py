"""Probes around the places of findings in a whole program; the rest of its text stays as it is.

``y.copy_(x[:n], non_blocking=True)`` as the earlier operation of finding 3 becomes::

    __streamlint__.enter((6,))
    __streamlint__.hold_current((6,))
    __streamlint__.see((6,), "y", y).copy_(__streamlint__.see((6,), "x[:n]", x[:n]), non_blocking=True)
    __streamlint__.leave((6,))

where 6 is the number of the site. ``see`` returns what it is given and keeps no strong reference.
"""

from __future__ import annotations

import ast
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from streamlint.confirm.text.instrument import (
    PROBE,
    Place,
    compiled,
    innermost,
    lines_of,
    statements,
    wrap_stream,
)
from streamlint.confirm.text.streams import plain_call, stream_argument
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LONGEST_NAME: Final = 60

_Located = TypeVar(
    "_Located",
    ast.BoolOp,
    ast.Call,
    ast.ExceptHandler,
    ast.Expr,
    ast.If,
    ast.Raise,
    ast.Starred,
    ast.Try,
)


class Role(Enum):
    EARLIER = "earlier"
    LATER = "later"
    STUCK = "stuck"
    """A later operation that may never end; one kind of run leaves it out."""
    GUARD = "guard"
    """Where the error of a finding may come up: the end of the capture, for one."""


@frozen()
class Site:
    """One place of the finding with this number."""

    finding: int
    role: Role
    path: str
    place: Place


def weave(source: str, path: str, sites: Mapping[int, Site]) -> ast.Module:
    """The program with probes at the sites of this file, by their numbers.

    A site that names no statement is left out: the file may have changed, or a compiler reads it.

    :raises SyntaxError: the source is not Python.
    """
    tree = ast.parse(source, path)
    ignored = _nodes_of(tree, compiled(tree))
    candidates, lines = statements(tree), lines_of(source)
    nodes: dict[int, list[int]] = {}
    for number, site in sites.items():
        node = innermost(candidates, lines, site.place)
        if node is not None and id(node) not in ignored:
            nodes.setdefault(id(node), []).append(number)
    guards = {number for number, site in sites.items() if site.role is Role.GUARD}
    earlier = {number for number, site in sites.items() if site.role is Role.EARLIER}
    stuck = {number for number, site in sites.items() if site.role is Role.STUCK}
    _Weaver(nodes, guards, earlier, stuck).visit(tree)
    return ast.fix_missing_locations(tree)


def _nodes_of(tree: ast.Module, names: frozenset[str]) -> set[int]:
    """All that is in the functions of these names."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [f for f in ast.walk(tree) if isinstance(f, kinds) and f.name in names]
    return {id(inner) for function in functions for inner in ast.walk(function)}


class _Weaver(ast.NodeTransformer):
    def __init__(
        self, nodes: Mapping[int, list[int]], guards: set[int], earlier: set[int], stuck: set[int]
    ) -> None:
        self._nodes = nodes
        self._guards = guards
        self._earlier = earlier
        self._stuck = stuck

    def visit(self, node: ast.AST) -> Any:  # noqa: ANN401 a node, or the statements for it
        numbers = self._nodes.get(id(node))
        self.generic_visit(node)
        if isinstance(node, ast.ExceptHandler) and self._guards:
            # Before the program can hide the error that is the evidence.
            node.body = [_at(ast.Expr(_call("caught", [])), node.body[0]), *node.body]
        if numbers is None:
            return node
        if isinstance(node, ast.Lambda):
            body = self._expression(node.body, numbers)
            test = self._proceeds(numbers, body)
            node.body = body if test is None else _at(ast.BoolOp(ast.And(), [test, body]), body)
            return node
        assert isinstance(node, ast.stmt)
        woven = self._statement(node, [n for n in numbers if n not in self._guards])
        test = self._proceeds(numbers, node)
        if test is not None:
            woven = [_at(ast.If(test, woven, []), node)]
        guards = [n for n in numbers if n in self._guards]
        return [_guarded(woven, guards, node)] if guards else woven

    def _proceeds(self, numbers: list[int], at: ast.stmt | ast.expr) -> ast.expr | None:
        """Whether a statement that may never end is to run; ``None`` for all others."""
        stuck = [n for n in numbers if n in self._stuck]
        return _at(_call("proceeds", [_tuple(stuck)]), at) if stuck else None

    def _statement(self, node: ast.stmt, numbers: list[int]) -> list[ast.stmt]:
        if not numbers:
            return [node]
        match node:
            case ast.If() | ast.While():
                node.test = self._expression(node.test, numbers)
            case ast.For() | ast.AsyncFor():
                node.iter = self._expression(node.iter, numbers)
            case ast.With() | ast.AsyncWith():
                first = node.items[0]
                first.context_expr = self._expression(first.context_expr, numbers)
            case ast.Match():
                node.subject = self._expression(node.subject, numbers)
            case ast.Try() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                pass
            case ast.Return():
                node.value = self._expression(node.value or ast.Constant(None), numbers)
            case _:
                return self._simple(node, numbers)
        return [node]

    def _simple(self, node: ast.stmt, numbers: list[int]) -> list[ast.stmt]:
        header = _Header(numbers)
        stored = _stored(node)
        plain = plain_call(node)
        header.rewrite(node)
        after = [_see(numbers, _moved(target, node)) for target in stored]
        probes: list[ast.expr] = [_call("enter", [_tuple(numbers)])]
        if not header.streams:
            probes += self._held(numbers, plain)
        last = [*after, _call("leave", [_tuple(numbers)])]
        return [
            *(_at(ast.Expr(probe), node) for probe in probes),
            node,
            *(_at(ast.Expr(probe), node) for probe in last),
        ]

    def _held(self, numbers: list[int], plain: ast.Call | None) -> list[ast.expr]:
        """What stands before an earlier statement that names no stream, or goes into its plain call."""
        held = [n for n in numbers if n in self._earlier]
        if not held:
            return []
        if plain is None:
            return [_call("hold_current", [_tuple(held)])]
        # fill(x, n, s)  ->  fill(*__streamlint__.hold_among((6,), x, n, s))
        among = _call("hold_among", [_tuple(held), *plain.args])
        plain.args = [_at(ast.Starred(among, ast.Load()), plain)]
        return []

    def _expression(self, value: ast.expr, numbers: list[int]) -> ast.expr:
        """``leave(n, enter(n) or value)``: the probe before returns ``None``."""
        header = _Header(numbers)
        plain = plain_call(value)
        rewritten = header.visit(value)
        before: list[ast.expr] = [_call("enter", [_tuple(numbers)])]
        if not header.streams:
            before += self._held(numbers, plain)
        whole = ast.BoolOp(ast.Or(), [*before, rewritten])
        return _at(_call("leave", [_tuple(numbers), whole]), value)


class _Header(ast.NodeTransformer):
    """Shows the probe what a statement touches, and the streams that it names."""

    def __init__(self, numbers: list[int]) -> None:
        self._numbers = numbers
        self.streams = 0

    def rewrite(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(value=value) | ast.AugAssign(value=value):
                node.value = self._shown(value)
            case ast.AnnAssign(value=ast.expr() as value):
                node.value = self._shown(value)
            case ast.Expr(value=value):
                node.value = self.visit(value)
            case _:
                pass

    def _shown(self, value: ast.expr) -> ast.expr:
        """The value of an assignment, by the text that makes it."""
        name = _name(value)
        visited = self.visit(value)
        return visited if _is_chain(value) else _see(self._numbers, visited, name)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return _see(self._numbers, node) if isinstance(node.ctx, ast.Load) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self._chain(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return self._chain(node)

    def _chain(self, node: ast.Attribute | ast.Subscript) -> ast.expr:
        """``self.slots[i]`` is shown as a whole: what a part of it leaves out may not be initialized."""
        if not isinstance(node.ctx, ast.Load):
            return node
        name = _name(node)
        if not _is_chain(node):  # bucket.current()[a:b]
            self.generic_visit(node)
        return _see(self._numbers, node, name)

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        argument = stream_argument(node)
        line = node.lineno
        # What is called is not shown, but what a method belongs to is: `see(x).copy_(...)`.
        if isinstance(node.func, ast.Attribute):
            node.func.value = self.visit(node.func.value)
        elif not isinstance(node.func, ast.Name | ast.Subscript):
            node.func = self.visit(node.func)
        node.args = [self.visit(one) for one in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        if argument is not None:
            self.streams += 1
            wrap_stream(node, argument, self._stream)
        return _at(_call("call", [_tuple(self._numbers), ast.Constant(line), node]), node)

    def _stream(self, value: ast.expr, kind: str) -> ast.expr:
        return _at(_call(f"on{kind}", [_tuple(self._numbers), value]), value)


def _is_chain(node: ast.expr) -> bool:
    """``a``, ``a.b``, ``a[i].c``: evaluating it calls nothing that is written there."""
    match node:
        case ast.Name():
            return True
        case ast.Attribute(value=value):
            return _is_chain(value)
        case ast.Subscript(value=value, slice=index):
            return _is_chain(value) and not any(
                isinstance(n, ast.Call | ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom)
                for n in ast.walk(index)
            )
        case _:
            return False


def _stored(node: ast.stmt) -> list[ast.expr]:
    """What can be looked at after the statement: the targets that are written into."""
    targets: Iterable[ast.expr]
    match node:
        case ast.AugAssign(target=target):
            targets = [target]
        case ast.Assign(targets=several):
            targets = [target for target in several if isinstance(target, ast.Subscript)]
        case _:
            targets = []
    shown = [_without_variable_index(one) for one in targets if _is_chain(one)]
    return [ast.parse(ast.unparse(one), mode="eval").body for one in shown]


def _without_variable_index(target: ast.expr) -> ast.expr:
    """``x`` for ``x[mask]``: to look up a mask on the device once more would wait for the device."""
    while isinstance(target, ast.Subscript) and any(isinstance(n, ast.Name) for n in ast.walk(target.slice)):
        target = target.value
    return target


def _moved(copy: ast.expr, at: ast.stmt) -> ast.expr:
    for inner in ast.walk(copy):
        if isinstance(inner, ast.expr):
            ast.copy_location(inner, at)
    return copy


def _guarded(body: list[ast.stmt], numbers: list[int], at: ast.stmt) -> ast.stmt:
    # A bare `raise` adds no line to the traceback.
    probe = _call("raised", [_tuple(numbers), ast.Name("__streamlint_error__", ast.Load())])
    handler = ast.ExceptHandler(
        ast.Name("BaseException", ast.Load()),
        "__streamlint_error__",
        [_at(ast.Expr(probe), at), _at(ast.Raise(), at)],
    )
    return _at(ast.Try(body, [_at(handler, at)], [], []), at)


def _see(numbers: list[int], value: ast.expr, name: str | None = None) -> ast.Call:
    call = _call("see", [_tuple(numbers), ast.Constant(name or _name(value)), value])
    return _at(call, value) if hasattr(value, "lineno") else call


def _name(value: ast.expr) -> str:
    return ast.unparse(value)[:_LONGEST_NAME]


def _tuple(numbers: list[int]) -> ast.expr:
    return ast.Tuple([ast.Constant(number) for number in numbers], ast.Load())


def _call(method: str, arguments: list[ast.expr]) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name(PROBE, ast.Load()), method, ast.Load()), arguments, [])


def _at(node: _Located, at: ast.stmt | ast.expr) -> _Located:
    """The new node where the user's own stands, for tracebacks."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.stmt | ast.expr | ast.ExceptHandler) and not hasattr(inner, "lineno"):
            ast.copy_location(inner, at)
    return node
