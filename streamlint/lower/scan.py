"""Walks over ``ast`` trees that the index needs: names, depth, declarations and bound names."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)


class Words(NamedTuple):
    """What the index wants to know of a tree."""

    names: frozenset[str]
    globals: frozenset[str]
    """Names declared ``global`` and assigned."""
    depth: int
    """The number of levels; those that libcst makes of ``a and b and c``, which is one for ``ast``, too."""


def scan(root: ast.AST) -> Words:
    """All identifiers in a tree, and the number of its levels.

    Attribute, keyword and imported names count, and so do strings that are identifiers:
    ``getattr(self, "copy_stream")`` touches ``copy_stream``. Goes level by level, so that deep
    trees need no recursion.
    """
    words: set[str] = set()
    noted: list[ast.AST] = []
    depth = 0
    level: list[ast.AST] = [root]
    while level:
        depth += 1
        below: list[ast.AST] = []
        for node in level:
            for value in node.__dict__.values():
                kind = type(value)
                if kind is int:  # most are line and column numbers
                    continue
                if kind is str:
                    words.add(value)
                elif kind is list:
                    for item in value:
                        if type(item) is str:
                            words.add(item)
                        elif isinstance(item, ast.AST):
                            below.append(item)
                elif isinstance(value, ast.AST) and value._fields:
                    # Not Load() and Add(), which a third of all nodes are.
                    below.append(value)
            if type(node) in _NOTED:
                noted.append(node)
        level = below
    declared = {name for node in noted if isinstance(node, ast.Global) for name in node.names}
    longest = max(map(_length, noted), default=0)
    stored = _stored(root) if declared else ()
    return Words(frozenset(_identifiers(words)), frozenset(declared.intersection(stored)), depth + longest)


_NOTED = frozenset({ast.Global, ast.BoolOp, ast.alias})


def _length(node: ast.AST) -> int:
    match node:
        case ast.BoolOp(values=values):
            return len(values)
        case ast.alias(name=name):
            return name.count(".")
        case _:
            return 0


def _stored(root: ast.AST) -> Iterator[str]:
    return (
        node.id for node in ast.walk(root) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )


def _identifiers(words: set[str]) -> Iterator[str]:
    for word in words:
        if word.isidentifier():
            yield word
        elif "." in word and " " not in word:  # import a.b
            yield from (part for part in word.split(".") if part.isidentifier())


def flat(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, bool]]:
    """The statements of a block and of the ``if``, ``try``, ``with`` and loops in it, in order.

    The flag says that a statement stands in a branch that is there for when the usual one does
    not apply: ``else``, ``except``, or ``if TYPE_CHECKING``. Definitions are not entered.
    """
    stack = [(statement, False) for statement in reversed(body)]
    while stack:
        statement, fallback = stack.pop()
        yield statement, fallback
        if isinstance(statement, DEFINITIONS):
            continue
        for block, spare in reversed(list(_blocks(statement))):
            stack.extend((inner, fallback or spare) for inner in reversed(block))


def _blocks(statement: ast.stmt) -> Iterator[tuple[list[ast.stmt], bool]]:
    typing_only = isinstance(statement, ast.If) and _last_name(statement.test) == "TYPE_CHECKING"
    yield getattr(statement, "body", []), typing_only
    for handler in getattr(statement, "handlers", []):
        yield handler.body, True
    for case in getattr(statement, "cases", []):
        yield case.body, False
    yield getattr(statement, "orelse", []), isinstance(statement, ast.If) and not typing_only
    yield getattr(statement, "finalbody", []), False


def _last_name(node: ast.expr) -> str:
    return dotted(node).rpartition(".")[2]


def dotted(node: ast.expr) -> str:
    """``a.b.c`` as text; of a call or a subscript its function or value; ``"?"`` if there is none."""
    parts: list[str] = []
    while True:
        match node:
            case ast.Call(func=inner) | ast.Subscript(value=inner):
                parts.clear()
                node = inner
            case ast.Attribute(value=inner, attr=attr):
                parts.append(attr)
                node = inner
            case ast.Name(id=name):
                return ".".join([name, *reversed(parts)])
            case _:
                return "?"


def bound_names(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Names that statements bind in their own scope, other than by definitions and imports."""
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                continue
            case ast.Import() | ast.ImportFrom():
                continue
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield name
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name
        if isinstance(node, ast.comprehension):  # its target is its own
            stack.extend((node.iter, *node.ifs))
        else:
            stack.extend(ast.iter_child_nodes(node))
