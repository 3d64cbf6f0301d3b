"""A program that rewrites change in place, and which lines of its first text each new line came from."""

from __future__ import annotations

import ast
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = Function | ast.Lambda | ast.ClassDef
BLOCKS = ("body", "orelse", "finalbody")


@dataclass(slots=True)
class Program:
    """The tree of a module. Its statements have the lines of the text that they came from."""

    tree: ast.Module
    imports: set[str] = field(default_factory=set)
    """Lines of imports that rewrites need."""
    names: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, text: str) -> Program:
        tree = ast.parse(text)
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        names |= {node.name for node in ast.walk(tree) if isinstance(node, (Function, ast.ClassDef))}
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        return cls(tree, names=names)

    def fresh(self, word: str) -> str:
        """A name that nothing in the program has."""
        number = 1
        while (name := f"{word}_{number}") in self.names:
            number += 1
        self.names.add(name)
        return name

    def printed(self) -> tuple[str, dict[int, tuple[int, int]]]:
        """The text of now; of each line at which a statement begins the first and last line it came from."""
        first = _after_beginning(self.tree.body)
        imports = [_placed(ast.parse(line).body[0], 1, 1) for line in sorted(self.imports)]
        self.tree.body[first:first] = imports
        self.imports.clear()
        ast.fix_missing_locations(self.tree)
        text = ast.unparse(self.tree) + "\n"
        was: dict[int, tuple[int, int]] = {}
        for new, old in zip(_statements(ast.parse(text)), _statements(self.tree), strict=True):
            assert type(new) is type(old)
            was.setdefault(new.lineno, head(old))
        return text, was


def _after_beginning(body: list[ast.stmt]) -> int:
    """Where imports may stand: behind the docstring and what is of the future."""
    for number, statement in enumerate(body):
        is_docstring = (
            number == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        )
        if not is_docstring and not (
            isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        ):
            return number
    return len(body)


def _statements(tree: ast.Module) -> list[ast.stmt]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


def head(statement: ast.stmt) -> tuple[int, int]:
    """First and last line of a statement, without the block that it holds."""
    last = statement.end_lineno or statement.lineno
    inner = [one.lineno for name in BLOCKS for one in getattr(statement, name, ())]
    return statement.lineno, max(statement.lineno, min([last, *(line - 1 for line in inner)]))


def _placed(statement: ast.stmt, first: int, last: int) -> ast.stmt:
    for node in ast.walk(statement):
        if isinstance(node, (ast.stmt, ast.expr, ast.ExceptHandler, ast.arg, ast.keyword, ast.alias)):
            node.lineno, node.end_lineno, node.col_offset, node.end_col_offset = first, last, 0, 0
    return statement


class _Filled(ast.NodeTransformer):
    def __init__(self, holes: dict[str, ast.expr | list[ast.stmt] | str]) -> None:
        self.holes = holes

    def visit_Name(self, node: ast.Name) -> ast.expr:
        hole = self.holes.get(node.id)
        if isinstance(hole, str):
            node.id = hole
            return node
        if isinstance(hole, ast.expr):
            return with_context(deepcopy(hole), node.ctx)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        name = self.holes.get(node.name)
        node.name = name if isinstance(name, str) else node.name
        self.generic_visit(node)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        name = self.holes.get(node.name)
        node.name = name if isinstance(name, str) else node.name
        self.generic_visit(node)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | list[ast.stmt]:
        if isinstance(node.value, ast.Name) and isinstance(block := self.holes.get(node.value.id), list):
            return block
        self.generic_visit(node)
        return node


def with_context(expression: ast.expr, context: ast.expr_context) -> ast.expr:
    """The expression as one that is read, written or deleted."""
    if isinstance(expression, (ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.List, ast.Starred)):
        expression.ctx = context
    return expression


def written(template: str, like: ast.stmt, **holes: ast.expr | list[ast.stmt] | str) -> list[ast.stmt]:
    """Statements of a template, standing where ``like`` stood.

    A hole is a name in capitals: of a name, for an expression, or for a block (as a statement of its own).
    """
    first, last = head(like)
    tree = ast.parse(template)
    tree.body = [_placed(one, first, last) for one in tree.body]
    filled: ast.Module = _Filled(holes).visit(tree)
    return filled.body


def blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Each block of statements, inner ones first."""
    for child in ast.iter_child_nodes(tree):
        yield from blocks(child)
    for name in BLOCKS:
        block = getattr(tree, name, None)
        if isinstance(block, list):
            yield block


_PLAIN_DECORATORS = {"staticmethod", "classmethod", "property", "contextmanager", "no_grad", "inference_mode"}


def functions(tree: ast.AST) -> list[Function]:
    """Functions that Python runs: not what a decorator may compile, as ``@wp.kernel`` does."""
    return [node for node in ast.walk(tree) if isinstance(node, Function) and _is_plain(node)]


def _is_plain(function: Function) -> bool:
    called = [one.func if isinstance(one, ast.Call) else one for one in function.decorator_list]
    return all((dotted(one) or "").rpartition(".")[2] in _PLAIN_DECORATORS for one in called)


def methods(tree: ast.Module) -> dict[int, ast.ClassDef]:
    """The class of each method, by ``id``."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found.update({id(one): node for one in node.body if isinstance(one, Function)})
    return found


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """What a function's body holds, without what functions and classes inside of it do."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Scope):
            waiting += ast.iter_child_nodes(node)


def read(nodes: list[ast.stmt] | ast.AST) -> set[str]:
    """Names that are read somewhere in it."""
    return {one.id for one in _names(nodes) if isinstance(one.ctx, ast.Load)}


def bound(nodes: list[ast.stmt] | ast.AST) -> set[str]:
    """Names that are assigned to, or deleted, somewhere in it."""
    return {one.id for one in _names(nodes) if not isinstance(one.ctx, ast.Load)}


def _names(nodes: list[ast.stmt] | ast.AST) -> Iterator[ast.Name]:
    for tree in nodes if isinstance(nodes, list) else [nodes]:
        yield from (one for one in ast.walk(tree) if isinstance(one, ast.Name))


def has(nodes: list[ast.stmt] | ast.AST, *kinds: type[ast.AST]) -> bool:
    trees = nodes if isinstance(nodes, list) else [nodes]
    return any(isinstance(one, kinds) for tree in trees for one in ast.walk(tree))


def parameters(function: Function) -> list[str]:
    args = function.args
    plain = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return [one.arg for one in (*plain, *filter(None, (args.vararg, args.kwarg)))]


def dotted(expression: ast.expr) -> str | None:
    """``a.b.c``, or nothing of what is no chain of names."""
    if isinstance(expression, ast.Name):
        return expression.id
    if isinstance(expression, ast.Attribute) and (rest := dotted(expression.value)):
        return f"{rest}.{expression.attr}"
    return None


def behind_docstring(body: list[ast.stmt]) -> int:
    first = body[0]
    return int(
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
