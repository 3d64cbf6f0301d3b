"""Other names for what a program names itself: functions, classes, variables, parameters and attributes.

What is not the program's own stays: names of libraries and of their objects' attributes, strings, keyword
arguments, names with two underscores on both sides. Lines stay, too, so that findings can be compared.
"""

from __future__ import annotations

import ast
import builtins
import queue
import random
import re
import string
import threading
from collections import deque
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

from streamlint.models import FRAMEWORKS, autograd, host, members, methods_of, torch
from streamlint.models.schema import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
_SHOWN = (builtins, list, dict, set, str, bytes, int, deque, queue.Queue, Future, Executor)
_WORD = re.compile(r"[A-Za-z_]\w*")


def _libraries() -> Iterator[str]:
    for framework in FRAMEWORKS:
        yield from (api.name.rpartition(".")[2] for api in framework.functions)
        for role in Role:
            yield from (api.name for api in methods_of(framework, role))
    yield from (
        *members.TENSOR_METHODS,
        *torch.META_ATTRIBUTES,
        *torch.META_METHODS,
        *torch.MODULE_METHODS,
        torch.OPTIMIZER_STEP,
        *(autograd.FORWARD, autograd.SETS_UP, autograd.BACKWARD),
    )
    for one in (*_SHOWN, threading.Thread, threading.Event, threading.Condition):
        yield from dir(one)


_LIBRARIES = frozenset(_libraries())
"""Attributes that objects of a library, or of Python, may have."""
_BUILTINS = frozenset(dir(builtins))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a name stands: line from 1, column in bytes."""

    name: str
    line: int
    column: int
    of_object: bool
    """An attribute, a method, or a variable of a class."""


@dataclass(slots=True)
class _Seen:
    """What a program shows of its names."""

    places: list[Place] = field(default_factory=list)
    variables: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    """Used where a name cannot be changed: imported, a keyword argument, part of a string."""
    foreign: set[str] = field(default_factory=set)
    """Used on objects of which the text does not tell what they are, or given by a class from elsewhere."""


def renamed(source: str, seed: int) -> str:
    """The program with random names of its own: ``stream`` may be called ``qvzkdu``, ``_stream`` ``_qvzkdu``.

    A leading underscore stays, which makes a name private.
    """
    tree = ast.parse(source)
    seen = _seen(source, tree)
    objects = seen.attributes - seen.kept - (seen.foreign & _LIBRARIES)
    variables = seen.variables - seen.kept - (seen.attributes - objects)
    chosen = _choose(sorted(objects | variables), random.Random(seed), set(_WORD.findall(source)))  # noqa: S311
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    for place in sorted(set(seen.places), key=lambda one: (one.line, -one.column)):
        if place.name in (objects if place.of_object else variables):
            _put(lines, place, chosen[place.name])
    return b"".join(lines).decode()


def _choose(names: Sequence[str], dice: random.Random, taken: set[str]) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for name in names:
        bare = name.lstrip("_")
        new = name
        while new in taken:
            word = "q" + "".join(dice.choices(string.ascii_lowercase, k=7))
            new = name[: len(name) - len(bare)] + word
        taken.add(new)
        chosen[name] = new
    return chosen


def _put(lines: list[bytes], place: Place, new: str) -> None:
    line = lines[place.line - 1]
    end = place.column + len(place.name.encode())
    assert line[place.column : end] == place.name.encode(), f"line {place.line}: no {place.name}"
    lines[place.line - 1] = line[: place.column] + new.encode() + line[end:]


# ----------------------------------------------------------------------------- what a program shows


def _seen(source: str, tree: ast.Module) -> _Seen:
    seen = _Seen(kept=set(_BUILTINS))
    lines = source.splitlines()
    own = {node.name for node in ast.walk(tree) if isinstance(node, _DEFINITIONS)}
    known = _receivers(tree) | own
    imported = _imported(tree)
    in_classes = {id(one) for cls in ast.walk(tree) if isinstance(cls, ast.ClassDef) for one in cls.body}
    documented = {id(one.value) for one in ast.walk(tree) if _is_text(one)}
    for node in ast.walk(tree):
        _note_class(node, own, seen)
        if id(node) not in documented:
            _note_kept(node, imported, seen)
        if isinstance(node, ast.Attribute):
            _note_attribute(node, known, imported, seen)
        elif isinstance(node, _DEFINITIONS):
            _note_definition(node, lines, seen, of_class=id(node) in in_classes)
        else:
            _note_variable(node, lines, seen)
    seen.kept |= imported
    seen.kept |= {name for name in seen.variables | seen.attributes if _special(name)}
    return seen


def _note_variable(node: ast.AST, lines: Sequence[str], seen: _Seen) -> None:
    match node:
        case ast.Name(id=name):
            seen.places.append(Place(name, node.lineno, node.col_offset, of_object=False))
            if isinstance(node.ctx, ast.Store):
                seen.variables.add(name)
        case ast.arg(arg=name):
            seen.places.append(Place(name, node.lineno, node.col_offset, of_object=False))
            seen.variables.add(name)
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            for word in _WORD.finditer(lines[node.lineno - 1]):
                if word[0] in names:
                    seen.places.append(Place(word[0], node.lineno, word.start(), of_object=False))
        case _:
            pass


def _note_attribute(node: ast.Attribute, known: set[str], imported: set[str], seen: _Seen) -> None:
    if _root(node.value) in imported:
        return
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    column = node.end_col_offset - len(node.attr.encode())
    seen.places.append(Place(node.attr, node.end_lineno, column, of_object=True))
    if not isinstance(node.value, ast.Name) or node.value.id not in known:
        seen.foreign.add(node.attr)
    elif isinstance(node.ctx, ast.Store):
        seen.attributes.add(node.attr)


def _note_definition(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef,
    lines: Sequence[str],
    seen: _Seen,
    *,
    of_class: bool,
) -> None:
    line = lines[node.lineno - 1]
    found = re.search(rf"(?:def|class)\s+({node.name})\b", line)
    assert found is not None
    column = len(line[: found.start(1)].encode())
    seen.places.append(Place(node.name, node.lineno, column, of_object=of_class))
    if not of_class:
        seen.variables.add(node.name)


def _is_text(node: ast.AST) -> TypeGuard[ast.Expr]:
    """A docstring: what it mentions is not used."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _special(name: str) -> bool:
    return not name.strip("_") or (name.startswith("__") and name.endswith("__"))


def _receivers(tree: ast.Module) -> set[str]:
    """The first parameters of methods."""
    return {
        method.args.args[0].arg
        for cls in ast.walk(tree)
        if isinstance(cls, ast.ClassDef)
        for method in cls.body
        if isinstance(method, _FUNCTIONS) and method.args.args
    }


def _imported(tree: ast.Module) -> set[str]:
    return {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }


def _root(node: ast.expr) -> str | None:
    """``torch`` of ``torch.cuda.stream``, and of no call."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _note_class(node: ast.AST, own: set[str], seen: _Seen) -> None:
    if not isinstance(node, ast.ClassDef):
        return
    names = {one.name for one in node.body if isinstance(one, _DEFINITIONS)}
    for one in node.body:
        for part in ast.walk(one) if not isinstance(one, _DEFINITIONS) else ():
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                names.add(part.id)
    seen.attributes |= names
    if any(_root(base) not in own for base in node.bases):
        seen.foreign |= names


def _note_kept(node: ast.AST, imported: set[str], seen: _Seen) -> None:
    match node:
        case ast.Constant(value=str(text)):
            seen.kept |= set(_WORD.findall(text))
        case ast.JoinedStr():
            # Before Python 3.12 the places in it are not known.
            seen.kept |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            seen.kept |= {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
        case ast.Call(func=func, keywords=keywords) if (
            _root(func) not in imported or ast.unparse(func) in host.REPLACES_FIELDS
        ):
            seen.kept |= {one.arg for one in keywords if one.arg is not None}
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            seen.kept.add(name)
        case ast.MatchMapping(rest=str(name)):
            seen.kept.add(name)
        case ast.MatchClass(kwd_attrs=names):
            seen.kept |= set(names)
        case _:
            pass
