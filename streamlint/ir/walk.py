"""All parts of a piece of code."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from streamlint.ir.decls import ClassDecl, Function

if TYPE_CHECKING:
    from collections.abc import Iterator


def walk(node: object) -> Iterator[object]:
    """A statement or expression and everything in it, outside in; definitions inside it are not entered."""
    if isinstance(node, tuple):
        for item in node:
            yield from walk(item)
    elif is_dataclass(node) and not isinstance(node, (Function, ClassDecl)):
        yield node
        for field in fields(node):
            if field.name != "span":
                yield from walk(getattr(node, field.name))
