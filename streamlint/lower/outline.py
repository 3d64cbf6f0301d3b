"""Functions and what stands around them, each told by a digest of its text; whose code was looked at."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint import ir
    from streamlint.lower.text import Lazy

_T = TypeVar("_T")
Looked: TypeAlias = "set[tuple[str, bytes]]"
"""Code that was looked at: the names of the modules, and digests."""
_HOLE = "\0"
"""Stands for a function in the text around it, in which there can be none."""


class Noted(Generic[_T]):
    """Code (``ir.Body``) that notes that it was looked at."""

    __slots__ = ("_lazy", "_looked", "_module", "digest")

    def __init__(self, lazy: Lazy[_T], module: str, digest: bytes, looked: Looked) -> None:
        self._lazy = lazy
        self._module = module
        self._looked = looked
        self.digest = digest

    def __call__(self) -> _T:
        self.note()
        return self._lazy()

    def note(self) -> None:
        self._looked.add((self._module, self.digest))


def outside(lines: Sequence[str], decls: Sequence[ir.FunctionDecl]) -> bytes:
    """A digest of the text around some functions of a module; that of decorators is part of it."""
    text: list[str] = []
    done = 0
    for decl in sorted(decls, key=lambda one: one.span.line):
        text += [*lines[done : decl.span.line - 1], _HOLE]
        done = max(done, decl.end_line)
    return digest(*text, *lines[done:])


def digest(*lines: str) -> bytes:
    return blake2b("\n".join(lines).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def in_tables(
    functions: dict[str, ir.FunctionDecl], classes: dict[str, ir.ClassDecl]
) -> Iterator[ir.FunctionDecl]:
    """All functions that a module or class leads to, setters too, in one order."""
    yield from functions.values()
    for cls in classes.values():
        yield from in_tables(cls.methods, cls.inner)
        yield from cls.setters.values()
