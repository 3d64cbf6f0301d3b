"""The methods of each class of a program in another order, which no caller can tell."""

from __future__ import annotations

import ast
import random
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"


def reordered(source: str, seed: int) -> tuple[str, list[int]]:
    """The program, and for each of its lines the number that the line had before.

    A class stays as it is if two of its methods have one name (a property and its setter), or if a method is
    used before the class is made.
    """
    dice = random.Random(seed)  # noqa: S311
    lines = source.splitlines(keepends=True)
    order = list(range(len(lines)))
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    # Inner classes first: the lines of a class that is moved later go with it.
    for cls in sorted(classes, key=lambda one: -one.col_offset):
        methods = [one for one in cls.body if isinstance(one, _FUNCTIONS)]
        if len(methods) > 1 and not _depends_on_order(cls, methods):
            _shuffle(order, [_lines(one) for one in methods], dice)
    return "".join(lines[number] for number in order), [number + 1 for number in order]


def _depends_on_order(cls: ast.ClassDef, methods: Sequence[_Function]) -> bool:
    names = [one.name for one in methods]
    run: list[ast.AST] = [one for one in cls.body if not isinstance(one, (*_FUNCTIONS, ast.ClassDef))]
    run += [part for one in methods for part in one.decorator_list]
    used = {node.id for one in run for node in ast.walk(one) if isinstance(node, ast.Name)}
    return len(set(names)) < len(names) or not used.isdisjoint(names)


def _lines(method: _Function) -> range:
    """From the first decorator to the last line, counted from 0."""
    first = min([method.lineno, *(one.lineno for one in method.decorator_list)])
    assert method.end_lineno is not None
    return range(first - 1, method.end_lineno)


def _shuffle(order: list[int], blocks: Sequence[range], dice: random.Random) -> None:
    texts = [[order[at] for at in block] for block in blocks]
    dice.shuffle(texts)
    for block, text in reversed(list(zip(blocks, texts, strict=True))):
        order[block.start : block.stop] = text
