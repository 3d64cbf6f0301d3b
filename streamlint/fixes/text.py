"""The statements of a file: which one holds a place, and where a line can be put beside it."""

from __future__ import annotations

import ast
from bisect import bisect_right
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from streamlint.files import lines_of
from streamlint.parsing import UnparsableError, parse

if TYPE_CHECKING:
    from collections.abc import Iterator


Scope: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.Module"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)


@dataclass(slots=True, eq=False)
class Source:
    """A file that was parsed. Statements are those of ``ast``; places count as in ``Span``."""

    path: str
    text: str
    tree: ast.Module
    lines: list[str] = field(init=False)
    """With their ends."""
    owners: dict[ast.AST, ast.AST] = field(init=False)
    """Of each statement and scope, the statement or scope around it."""
    _starts: list[tuple[tuple[int, int], ast.stmt | ast.Lambda]] = field(init=False)
    """Where each statement and lambda begins, the outer one first."""
    _names: dict[ast.AST, frozenset[str]] = field(default_factory=dict, init=False)
    _bound: dict[ast.AST, frozenset[str]] = field(default_factory=dict, init=False)
    _written: dict[ast.AST, dict[str, ast.expr]] = field(default_factory=dict, init=False)
    _given: dict[ast.AST, dict[str, list[ast.AST]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.lines = lines_of(self.text, keepends=True)
        self.owners = {}
        waiting: list[tuple[ast.AST, ast.AST]] = [(self.tree, self.tree)]
        while waiting:
            node, owner = waiting.pop()
            if isinstance(node, (ast.stmt, ast.Lambda)):
                self.owners[node] = owner
                owner = node
            waiting += [(child, owner) for child in ast.iter_child_nodes(node)]
        parts = [node for node in self.owners if isinstance(node, (ast.stmt, ast.Lambda))]
        self._starts = sorted(((self.start(node), node) for node in parts), key=itemgetter(0))

    @classmethod
    def of(cls, path: str, text: str) -> Source | None:
        try:
            return cls(path, text, parse(text))
        except UnparsableError:
            return None

    # ------------------------------------------------------------------ places

    def at(self, line: int, col: int) -> ast.stmt | None:
        """The innermost statement around a place; None in a lambda, which runs at another time."""
        number = bisect_right(self._starts, (line, col), key=itemgetter(0))
        found: ast.AST = self._starts[number - 1][1] if number else self.tree
        while isinstance(found, (ast.stmt, ast.Lambda)) and not self._holds(found, line, col):
            found = self.owners[found]
        return found if isinstance(found, ast.stmt) else None

    def _holds(self, node: ast.stmt | ast.Lambda, line: int, col: int) -> bool:
        return self.start(node) <= (line, col) < self.end(node)

    def start(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        return node.lineno, self._column(node.lineno, node.col_offset)

    def end(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        line = node.end_lineno or node.lineno
        return line, self._column(line, node.end_col_offset or 0)

    def _column(self, line: int, in_bytes: int) -> int:
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if text.isascii():
            return in_bytes
        return len(text.encode("utf-8", "surrogatepass")[:in_bytes].decode("utf-8", "surrogatepass"))

    def around(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """The statement and those around it, up to its function."""
        node: ast.AST = statement
        while isinstance(node, ast.stmt) and not isinstance(node, _SCOPES):
            yield node
            node = self.owners[node]

    def scope(self, statement: ast.stmt) -> Scope:
        node: ast.AST = self.owners[statement]
        while not isinstance(node, _SCOPES):
            node = self.owners[node]
        return node

    # ------------------------------------------------------------------ lines

    def indent(self, statement: ast.stmt) -> str | None:
        """The white space before a statement; None if its line begins with something else."""
        line, col = self.start(statement)
        before = self.lines[line - 1][:col]
        is_arm = isinstance(statement, ast.If) and not self.lines[line - 1][col:].startswith("if")
        return None if before.strip() or is_arm else before

    def line_before(self, statement: ast.stmt) -> int:
        """The line at which a line can be put before a statement: above the comments that belong to it."""
        line, indent = statement.lineno, self.indent(statement)
        while line > 1 and indent is not None and self.lines[line - 2].startswith(f"{indent}#"):
            line -= 1
        return line

    def line_after(self, statement: ast.stmt) -> int | None:
        """The line at which one can be put behind; None if something else stands in its last line."""
        line, col = self.end(statement)
        rest = self.lines[line - 1][col:].strip()
        return None if rest and not rest.startswith("#") else line + 1

    def stands_alone(self, statement: ast.stmt) -> bool:
        return self.indent(statement) is not None and self.line_after(statement) is not None

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements among which one stands."""
        return next((block for block in _blocks(self.owners[statement]) if statement in block), [statement])

    # ------------------------------------------------------------------ names

    def is_mentioned(self, expression: ast.expr, place: ast.stmt, *, behind: bool = False) -> bool:
        """Whether every way to a place has bound an expression, or used it."""
        wanted = ast.dump(expression)
        scope = self.scope(place)
        if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) and ast.unparse(expression) in {
            arg.arg for arg in ast.walk(scope.args) if isinstance(arg, ast.arg)
        }:
            return True
        return any(
            isinstance(node, ast.expr) and _loaded(node) == wanted
            for before in self._on_every_way(place, behind=behind)
            for node in _unconditional(before)
        )

    def names(self, scope: ast.AST) -> frozenset[str]:
        """All names in the text of a scope."""
        if scope not in self._names:
            found = {node.id for node in ast.walk(scope) if isinstance(node, ast.Name)}
            found |= {node.arg for node in ast.walk(scope) if isinstance(node, ast.arg)}
            self._names[scope] = frozenset(found)
        return self._names[scope]

    def bound(self, scope: ast.AST) -> frozenset[str]:
        """Names that a function makes its own."""
        if scope not in self._bound:
            found = {
                node.id
                for node in ast.walk(scope)
                if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
            }
            found |= {node.arg for node in ast.walk(scope) if isinstance(node, ast.arg)}
            self._bound[scope] = frozenset(found)
        return self._bound[scope]

    def written(self, scope: ast.AST) -> dict[str, ast.expr]:
        """The chains of names, attributes and elements in the text of a scope."""
        if scope not in self._written:
            found: dict[str, ast.expr] = {}
            for node in ast.walk(scope):
                if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and _is_chain(node):
                    found.setdefault(ast.unparse(node), node)
                elif isinstance(node, ast.arg):
                    found.setdefault(node.arg, ast.Name(node.arg, ast.Load()))
            self._written[scope] = found
        return self._written[scope]

    def is_sure(self, expression: ast.expr, place: ast.stmt, *, behind: bool = False) -> bool:
        """Whether every way to a place comes by a use of the expression that only what it stands for allows.

        A call, a ``with`` or an assignment of a call's result: ``if side is not None: ...`` shows nothing.
        """
        wanted = ast.dump(expression)
        may_be_none = self._may_be_none(expression, place)
        if self._is_sure_for_all(expression, place):
            return True
        for before in self._on_every_way(place, behind=behind):
            for node in _unconditional(before):
                match node:
                    case ast.Call(func=ast.Attribute(value=value)) if ast.dump(value) == wanted:
                        return True
                    case ast.Call(args=args, keywords=keywords):
                        given = [*args, *(keyword.value for keyword in keywords)]
                        if not may_be_none and any(ast.dump(each) == wanted for each in given):
                            return True
                    case ast.withitem(context_expr=value) if ast.dump(value) == wanted:
                        return True
                    case ast.Assign(targets=targets, value=value) if _gives(value):
                        if any(wanted == _loaded(each) for target in targets for each in _flat(target)):
                            return True
                    case _:
                        pass
        return False

    def _may_be_none(self, expression: ast.expr, place: ast.stmt) -> bool:
        """Whether it is a parameter that need not be given: ``torch.cuda.stream(None)`` does nothing."""
        scope = self.scope(place)
        if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) or not isinstance(
            expression, ast.Name
        ):
            return False
        given = scope.args
        in_place = [*given.posonlyargs, *given.args]
        defaults = [
            *zip(reversed(in_place), reversed(given.defaults), strict=False),
            *zip(given.kwonlyargs, given.kw_defaults, strict=True),
        ]
        told = [
            ast.unparse(each.annotation) for each in in_place if each.arg == expression.id and each.annotation
        ]
        return any("None" in text or "Optional" in text for text in told) or any(
            arg.arg == expression.id and isinstance(default, ast.Constant) and default.value is None
            for arg, default in defaults
        )

    def _is_sure_for_all(self, expression: ast.expr, place: ast.stmt) -> bool:
        """Whether it is an attribute or a variable of the module that gets what calls return, nothing else.

        An attribute gets it in the constructor, whatever happens there.
        """
        scope = self.scope(place)
        wanted = ast.dump(expression)
        match expression:
            case ast.Name(id=name):
                if scope is not self.tree and name in self.bound(scope):
                    return False
                home: ast.AST = self.tree
                body = self.tree.body
            case ast.Attribute(value=ast.Name(id="self")):
                owner = self.owners.get(scope)
                if not isinstance(owner, ast.ClassDef):
                    return False
                makers = [each for each in owner.body if isinstance(each, ast.FunctionDef)]
                home = owner
                body = next((each.body for each in makers if each.name == "__init__"), [])
            case _:
                return False
        given = self._assigned(home).get(wanted, [])
        return all(isinstance(node, ast.Assign) and _gives(node.value) for node in given) and any(
            node in given for statement in body for node in _unconditional(statement)
        )

    def _assigned(self, home: ast.AST) -> dict[str, list[ast.AST]]:
        """The statements that give something to an expression, or take it away, in the text of a node."""
        if home not in self._given:
            found: dict[str, list[ast.AST]] = {}
            for node in ast.walk(home):
                if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete)):
                    for each in dict.fromkeys(_loaded(x) for target in _targets(node) for x in _flat(target)):
                        found.setdefault(each, []).append(node)
            self._given[home] = found
        return self._given[home]

    def _on_every_way(self, place: ast.stmt, *, behind: bool) -> Iterator[ast.AST]:
        """What has run whenever the place is reached: earlier statements of the blocks around it."""
        node: ast.stmt = place
        if behind:
            yield place
        while True:
            owner = self.owners[node]
            for block in _blocks(owner):
                if node in block:
                    yield from block[: block.index(node)]
            if isinstance(owner, (ast.With, ast.AsyncWith)):
                yield from owner.items
            if not isinstance(owner, ast.stmt) or isinstance(owner, _SCOPES):
                return
            node = owner


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block
    for arm in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield arm.body


def _unconditional(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a statement that run whenever it does."""
    yield node
    match node:
        case ast.If(test=header) | ast.While(test=header) | ast.For(iter=header):
            yield from _unconditional(header)
        case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
            for part in (*items, *body):
                yield from _unconditional(part)
        case ast.Try(body=body, finalbody=final) if not node.handlers:
            for part in (*body, *final):
                yield from _unconditional(part)
        case ast.Try() | ast.Lambda() | ast.IfExp() | ast.BoolOp() | ast.Match():
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _unconditional(child)


def _targets(node: ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Delete) -> list[ast.expr]:
    return node.targets if isinstance(node, (ast.Assign, ast.Delete)) else [node.target]


def _is_chain(node: ast.expr) -> bool:
    match node:
        case ast.Name() | ast.Constant():
            return True
        case ast.Attribute(value=inner):
            return _is_chain(inner)
        case ast.Subscript(value=inner, slice=index):
            return _is_chain(inner) and _is_chain(index)
        case _:
            return False


def _gives(value: ast.expr) -> bool:
    """Whether a value is what a call returns, or several of these."""
    match value:
        case ast.Call() | ast.ListComp():
            return True
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return all(_gives(item) for item in items)
        case _:
            return False


def _flat(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for item in target.elts:
            yield from _flat(item)
    else:
        yield target


def _loaded(target: ast.expr) -> str:
    return ast.dump(target).replace("ctx=Store()", "ctx=Load()")
