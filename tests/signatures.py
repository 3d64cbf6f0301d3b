"""Signatures of installed libraries, as far as they can be had.

They come from ``inspect``, or from the first line of a docstring, where Cython and C extensions put
theirs: ``memcpyAsync(intptr_t dst, intptr_t src, size_t size, int kind, intptr_t stream)``.
"""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a call; ``default`` is its text, None where it must be given."""

    name: str
    default: str | None = None
    keyword: bool = False
    """Given by keyword only."""


@dataclass(frozen=True, slots=True)
class Signature:
    parameters: tuple[Parameter, ...]
    open: bool = False
    """There is ``*args`` or ``**kwargs``: more names may be taken than those that show."""

    def __getitem__(self, name: str) -> Parameter:
        return next(one for one in self.parameters if one.name == name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.parameters)

    @property
    def positional(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.parameters if not one.keyword)


def find(path: str) -> object | None:
    """What a dotted path names, through modules, classes and attributes; None if there is no such thing.

    ``X().name`` is a method of the objects that ``X`` makes, and ``X()`` what calling them does.
    """
    parts = path.removesuffix("()").split(".")
    found: object | None = None
    for i, part in enumerate(parts):
        name = part.removesuffix("()")
        inner = getattr(found, name, None) if found is not None else None
        if inner is None and (found is None or inspect.ismodule(found)):
            inner = _module(".".join(parts[: i + 1]))
        if inner is None:
            return None
        found = inner
    return getattr(found, "__call__", None) if path.endswith("()") else found  # noqa: B004


def _module(name: str) -> object | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def signature(function: object) -> Signature | None:
    """None where neither ``inspect`` nor the docstring tells."""
    documented = _documented(function)
    try:
        seen = inspect.signature(function)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return documented
    parameters = [
        Parameter(
            one.name,
            None if one.default is one.empty else repr(one.default),
            one.kind is one.KEYWORD_ONLY,
        )
        for one in seen.parameters.values()
        if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) and one.name not in ("self", "cls")
    ]
    more = any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in seen.parameters.values())
    if more and not parameters:
        # A class whose metaclass or wrapper takes anything: what it is made with says more.
        for maker in ("__init__", "__new__"):
            inner = getattr(function, maker, None) if isinstance(function, type) else None
            if inspect.isfunction(inner):
                made = signature(inner)
                if made is not None and made.parameters:
                    return made
        return documented
    return Signature(tuple(parameters), more)


_DOCUMENTED = re.compile(r"^\s*[\w.]+\((.*)\)[^()]*$")


def _documented(function: object) -> Signature | None:
    lines = (getattr(function, "__doc__", None) or "").strip().splitlines()
    found = _DOCUMENTED.match(lines[0]) if lines else None
    return parse(found[1]) if found is not None else None


def parse(text: str) -> Signature:
    """``"self, int* x, name: str = 'a, b', *, stream=None"`` as parameters."""
    parameters: list[Parameter] = []
    more = keyword = False
    for part in _split(text):
        declared, _, default = part.partition("=")
        name = declared.partition(":")[0].split()[-1] if declared.strip() else ""
        if part.startswith("*"):
            keyword, more = True, more or part != "*"
        elif name and name not in ("self", "cls", "/"):
            parameters.append(Parameter(name.strip("*&"), default.strip() or None, keyword))
    return Signature(tuple(parameters), more)


def _split(text: str) -> list[str]:
    """At the commas that stand in no bracket and no string."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        depth += (char in "([{") - (char in ")]}") if not quote else 0
        if char == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]
