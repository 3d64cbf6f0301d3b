"""The statements of a file: which one holds a place, and where a line can be put beside it."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from streamlint.files import lines_of
from streamlint.frozen import frozen
from streamlint.models import vocabulary
from streamlint.parsing import UnparsableError, parse

if TYPE_CHECKING:
    from collections.abc import Iterator


Scope: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.Module"
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)

_ID = re.compile(r"\bid='(\w+)'")
_LEAVES = (ast.expr_context, ast.operator, ast.cmpop, ast.Name, ast.Constant)
"""Most nodes, in which no statement can be."""


@frozen()
class Given:
    """What a statement gives to an expression; no value: it takes away, or nobody knows."""

    statement: ast.stmt
    value: ast.expr | None = None


@frozen()
class Imported:
    """What a name stands for in a whole file, because nothing but imports of this gives it something."""

    path: str
    at: int | None
    """Which statement of the file does, whatever happens; None in a ``try``, an ``if`` or a function."""


@frozen()
class Uses:
    """What a text does with names, wherever they stand."""

    outer: frozenset[str]
    """Those that a function declares ``global`` or ``nonlocal``."""
    words: frozenset[str]
    """Names in quotes, without what stands before a dot, and of keywords: ``setattr(x, "side", None)``."""


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
    _given: dict[ast.AST, dict[str, list[Given]]] = field(default_factory=dict, init=False)
    _imports: dict[str, Imported] | None = field(default=None, init=False)
    _uses: Uses | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.lines = lines_of(self.text, keepends=True)
        self.owners = {}
        waiting: list[tuple[ast.AST, ast.AST]] = [(self.tree, self.tree)]
        while waiting:
            node, owner = waiting.pop()
            if isinstance(node, (ast.stmt, ast.Lambda)):
                self.owners[node] = owner
                owner = node
            waiting += [
                (child, owner) for child in ast.iter_child_nodes(node) if not isinstance(child, _LEAVES)
            ]
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
        while isinstance(node, ast.stmt) and not isinstance(node, SCOPES):
            yield node
            node = self.owners[node]

    def scope(self, statement: ast.stmt) -> Scope:
        node: ast.AST = self.owners[statement]
        while not isinstance(node, SCOPES):
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
        """The line at which a line can be put before a statement: above the comments that belong to it.

        And above its decorators. Not above what looks like a comment and ends a string over several lines.
        """
        decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
        line = min([statement.lineno, *(each.lineno for each in decorators)])
        indent, block = self.indent(statement), self.block(statement)
        earlier = block[: block.index(statement)]
        first = (earlier[-1].end_lineno or 1) + 1 if earlier else 2
        while line > first and indent is not None and self.lines[line - 2].startswith(f"{indent}#"):
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
        return next((block for block in blocks(self.owners[statement]) if statement in block), [statement])

    # ------------------------------------------------------------------ names

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

    def given(self, home: ast.AST) -> dict[str, list[Given]]:
        """What the text of a node gives to expressions, or takes away, by the expression."""
        if home not in self._given:
            found: dict[str, list[Given]] = {}
            for node in ast.walk(home):
                for target, given in gifts(node):
                    for each in flat(target):
                        found.setdefault(loaded(each), []).append(given)
            self._given[home] = found
        return self._given[home]

    def stores(self, name: str) -> list[tuple[str, Given]]:
        """What the text gives to attributes of a name, and to names in bodies of classes, by the target."""
        attribute, variable = f"attr='{name}', ctx=Load())", ast.dump(ast.Name(name, ast.Load()))
        return [
            (key, given)
            for key, gifts_there in self.given(self.tree).items()
            for given in gifts_there
            if (key.startswith("Attribute(") and key.endswith(attribute))
            or (key == variable and isinstance(self._scope_of(given), ast.ClassDef))
        ]

    def _scope_of(self, given: Given) -> Scope | None:
        return self.scope(given.statement) if given.statement in self.owners else None

    @property
    def uses(self) -> Uses:
        if self._uses is None:
            self._uses = _uses(self.tree)
        return self._uses

    @property
    def takes_all(self) -> bool:
        """Whether any name may come from elsewhere: ``from helpers import *``."""
        return any(
            isinstance(each.statement, ast.ImportFrom)
            and (each.statement.module or "").partition(".")[0] not in vocabulary.ROOTS
            for each in self.given(self.tree).get(ast.dump(ast.Name("*", ast.Load())), ())
        )

    @property
    def imports(self) -> dict[str, Imported]:
        """The names that stand for one import wherever they are used."""
        if self._imports is None:
            self._imports = {}
            given = self.given(self.tree) if not self.takes_all else {}
            changed = {name for key in given if key.startswith("Attribute(") for name in _ID.findall(key)}
            for key, gifts_there in given.items():
                name = "".join(_ID.findall(key)) if key.startswith("Name(") else ""
                paths = {_imported(each.statement, name) for each in gifts_there}
                path = paths.pop()
                if name and name not in changed and path is not None and not paths:
                    there = (
                        self.tree.body.index(g.statement)
                        for g in gifts_there
                        if g.statement in self.tree.body
                    )
                    self._imports[name] = Imported(path, min(there, default=None))
        return self._imports

    def path_of(self, expression: ast.expr) -> str | None:
        """The dotted path of what is imported and written so: ``torch.cuda.Stream``."""
        rest = ""
        head: ast.AST = expression
        while isinstance(head, ast.Attribute):
            rest, head = f".{head.attr}{rest}", head.value
        known = self.imports.get(head.id) if isinstance(head, ast.Name) else None
        return None if known is None else known.path + rest

    def home(self, name: str, place: ast.stmt) -> ast.AST:
        """The scope whose variable a name is."""
        scope: ast.AST = self.scope(place)
        while scope is not self.tree and (isinstance(scope, ast.ClassDef) or name not in self.bound(scope)):
            scope = self.owners[scope]
            while not isinstance(scope, SCOPES):
                scope = self.owners[scope]
        return scope


def _uses(tree: ast.Module) -> Uses:
    outer, words = set[str](), set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                outer |= set(names)
            case ast.Constant(value=str(text)):
                words.add(text.rpartition(".")[2])
            case ast.keyword(arg=str(name)):
                words.add(name)
            case _:
                pass
    return Uses(frozenset(outer), frozenset(words))


def _imported(statement: ast.stmt, name: str) -> str | None:
    """What an import gives to a name; None where it is no import."""
    match statement:
        case ast.Import(names=names):
            return next(
                (
                    each.name if each.asname == name else name
                    for each in names
                    if (each.asname or each.name.partition(".")[0]) == name
                ),
                None,
            )
        case ast.ImportFrom(module=module, names=names, level=level):
            return next(
                (
                    f"{'.' * level}{module or ''}.{each.name}"
                    for each in names
                    if (each.asname or each.name) == name
                ),
                None,
            )
        case _:
            return None


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block
    for arm in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield arm.body


def unconditional(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a statement that run whenever it does."""
    yield node
    match node:
        case ast.If(test=header) | ast.While(test=header) | ast.For(iter=header) | ast.AsyncFor(iter=header):
            yield from unconditional(header)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                yield from unconditional(item)
        case ast.Try(body=body, finalbody=final) if not node.handlers:
            for part in (*body, *final):
                yield from unconditional(part)
        case ast.Try() | ast.Lambda() | ast.IfExp() | ast.BoolOp() | ast.Match():
            return
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            yield from unconditional(node.generators[0].iter)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return
        case _:
            for child in ast.iter_child_nodes(node):
                yield from unconditional(child)


def named_first(statement: ast.AST) -> ast.expr | None:
    """What a statement names before anything else happens: ``with torch.cuda.stream(self.side): ...``."""
    match statement:
        case ast.With(items=[ast.withitem(context_expr=ast.Call(args=[first, *_])), *_]):
            return first
        case _:
            return None


def gifts(node: ast.AST) -> Iterator[tuple[ast.expr, Given]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield target, Given(node, value)
        case ast.AnnAssign(target=target, value=value) if value is not None:
            yield target, Given(node, value)
        case ast.AugAssign(target=target, op=op, value=value):
            yield target, Given(node, ast.BinOp(value, op, value))
        case ast.Delete(targets=targets):
            for target in targets:
                yield target, Given(node)
        case ast.NamedExpr(target=target):
            yield target, Given(ast.Expr(node))
        case ast.stmt():
            yield from _otherwise(node)
        case _:
            pass


def _otherwise(node: ast.stmt) -> Iterator[tuple[ast.expr, Given]]:
    """What else binds names: ``for s in ...``, ``except E as s``, ``import s``, ``def s`` and patterns."""
    names: list[str] = []
    match node:
        case ast.For(target=target) | ast.AsyncFor(target=target):
            yield target, Given(node)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                if item.optional_vars is not None:
                    yield item.optional_vars, Given(node)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            names.append(name)
        case ast.Import(names=imported) | ast.ImportFrom(names=imported):
            names += [(each.asname or each.name).partition(".")[0] for each in imported]
        case ast.Try(handlers=handlers):
            names += [each.name for each in handlers if each.name is not None]
        case ast.Match(cases=cases):
            patterns = [part for case in cases for part in ast.walk(case.pattern)]
            names += [
                part.name for part in patterns if isinstance(part, (ast.MatchAs, ast.MatchStar)) and part.name
            ]
            names += [part.rest for part in patterns if isinstance(part, ast.MatchMapping) and part.rest]
        case _:
            pass
    for name in names:
        yield ast.Name(name, ast.Load()), Given(node)


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


def flat(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for item in target.elts:
            yield from flat(item)
    elif isinstance(target, ast.Starred):
        yield from flat(target.value)
    else:
        yield target


def loaded(target: ast.expr) -> str:
    return ast.dump(target).replace("ctx=Store()", "ctx=Load()").replace("ctx=Del()", "ctx=Load()")
