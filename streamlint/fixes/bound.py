"""Whether a name is bound wherever a line may run: ``torch`` is not behind ``del torch``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from streamlint.fixes.text import SCOPES, blocks, headers, unconditional

if TYPE_CHECKING:
    from streamlint.fixes.text import Source

_IMPORTS = (ast.Import, ast.ImportFrom)


def is_bound(source: Source, name: str, place: ast.stmt, *, behind: bool = False) -> bool:
    """Whether the text shows it: it is imported or used on each way to the place, and not taken away."""
    if not behind and any(_is_used(part, name) for part in unconditional(place)):
        return True
    if behind and (told := _tells(source, place, name)) is not None:
        return told
    node: ast.AST = place
    while isinstance(node, ast.stmt):
        owner = source.owners[node]
        block = next((each for each in blocks(owner) if node in each), [node])
        for before in reversed(block[: block.index(node)]):
            if (told := _tells(source, before, name)) is not None:
                return told
        if any(_is_used(part, name) for each in headers(owner) for part in unconditional(each)):
            return True
        if isinstance(owner, SCOPES) and owner is not source.tree and _is_local(source, owner, name):
            return any(each.arg == name for each in ast.walk(owner) if isinstance(each, ast.arg))
        if owner is source.tree:
            break
        node = owner
    told_by = [_tells(source, each, name) for each in source.tree.body]
    return True in told_by and False not in told_by


def _is_local(source: Source, scope: ast.AST, name: str) -> bool:
    given = source.given(scope).get(ast.dump(ast.Name(name, ast.Load())), [])
    return name in source.bound(scope) or any(source.scope(each.statement) is scope for each in given)


def _tells(source: Source, statement: ast.stmt, name: str) -> bool | None:
    """Whether the name is bound when a statement has run; None if that shows nothing."""
    if isinstance(statement, SCOPES):
        return None
    given = source.given(statement).get(ast.dump(ast.Name(name, ast.Load())), [])
    if given:
        if not all(isinstance(each.statement, _IMPORTS) for each in given):
            return False
        surely = list(unconditional(statement))
        if isinstance(statement, ast.Try):  # what it is caught for ends the program, or it was there
            surely += [part for each in statement.body for part in unconditional(each)]
        return True if any(each.statement in surely for each in given) else None
    return True if any(_is_used(part, name) for part in unconditional(statement)) else None


def _is_used(part: ast.AST, name: str) -> bool:
    return isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load)
