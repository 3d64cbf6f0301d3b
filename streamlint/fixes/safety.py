"""What makes a fix safe: the closed list of what the text in sight proves. All other fixes are unsafe.

A safe fix adds an order and nothing else, and may be applied unread. For that

* what it names is proved to be what it is taken for: ``is_stream``, ``is_on_device``, ``_is_imported``;
* its place is reached in a straight line, and there is a GPU: ``_stands_plainly``, ``_has_device``;
* nothing in the tree captures, polls, or compiles functions, and there is one device: ``Surroundings``.

What no text in sight can tell is taken for granted, and said in the documentation: what unseen code queues
ends by itself, unseen callers do not capture, and annotations are true.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from streamlint import models
from streamlint.fixes.known import DEEPEST, all_given, gives_stream
from streamlint.fixes.text import unconditional
from streamlint.fixes.ways import (
    around,
    at_top,
    before,
    is_harmless,
    is_known,
    key,
    parameter,
    part,
    row_of,
)
from streamlint.frozen import replace
from streamlint.models import torch
from streamlint.models.schema import CurrentStream, Lib, NewStream
from streamlint.parsing import expression_of, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.fixes.places import Place
    from streamlint.fixes.text import Source
    from streamlint.fixes.words import Named

_ON_THE_CPU_TOO = (Lib.TORCH, Lib.WARP)
"""Libraries whose programs run without a GPU, where asking for a current stream is an error."""
_DENSE = frozenset(f"torch.{name}" for name in torch.FACTORIES - torch.FROM_PYTHON)
"""What takes no tensor, which may be sparse."""


def is_safe(place: Place, lines: Sequence[str], named: Sequence[Named], tensor: str | None = None) -> bool:
    """Whether lines that name some streams, and perhaps a tensor, break no program at a place."""
    known = {
        node.id for each in (*(n.text for n in named if n.simple), tensor or "0") for node in _names(each)
    }
    parts = _names("\n".join(lines))
    known |= {node.id for node in parts if isinstance(node.ctx, ast.Store)}
    return (
        _stands_plainly(place)
        and all(_is_imported(place, node.id) for node in parts if node.id not in known)
        and all(is_stream(place, each) for each in named)
        and (tensor is None or is_on_device(place, expression_of(tensor)))
        and _has_device(place, named)
        and place.surroundings.are_on_one_device(place.source, {each.lib for each in named})
        and place.surroundings.are_quiet()
        and place.surroundings.names_are_written(place.source)
    )


def is_stream(place: Place, named: Named) -> bool:
    """Whether an expression is a stream on each way to a place.

    ``None.wait_stream(...)`` is an error where ``torch.cuda.stream(None)`` is none; so is 0 with Numba. What
    counts is what made the object, and that nothing else in sight can stand in its place.
    """
    expression = expression_of(named.text)
    if not named.simple:
        return _is_asked_for(place, expression, named)
    match expression:
        case ast.Name(id=name) if parameter(place.source.scope(place.statement), name) is not None:
            return _is_annotated(place, name)
        case ast.Name(id=name):
            given = all_given(place, name)
            return bool(given) and all(gives_stream(place, each, expression) for each in given)
        case _:
            return False


def _is_asked_for(place: Place, asked: ast.expr, named: Named) -> bool:
    """The stream that is current; the default one only where it is what a call without a stream works on.

    A default stream is not what somebody else has selected: ``with torch.cuda.stream(s):`` around the call.
    """
    if named.raw:
        return True
    if isinstance(asked, ast.Call) and row_of(place.source, asked, (CurrentStream,)) is not None:
        return True
    return not any(
        isinstance(effect, CurrentStream)
        for api in models.BY_LIB[named.lib].functions
        for effect in api.effects
    )


def _is_annotated(place: Place, name: str) -> bool:
    """``side: torch.cuda.Stream``, without a default, to which the function gives nothing else."""
    source, scope = place.source, place.source.scope(place.statement)
    arg = parameter(scope, name)
    if arg is None or arg.annotation is None or source.given(scope).get(key(ast.Name(name, ast.Load()))):
        return False
    assert not isinstance(scope, (ast.ClassDef, ast.Module))
    in_place = [*scope.args.posonlyargs, *scope.args.args]
    needed = in_place[: len(in_place) - len(scope.args.defaults)]
    needed += [
        each
        for each, value in zip(scope.args.kwonlyargs, scope.args.kw_defaults, strict=True)
        if value is None
    ]
    told = arg.annotation
    if isinstance(told, ast.Constant) and isinstance(told.value, str):
        told = expression_of(told.value)
    return arg in needed and row_of(source, ast.Call(told, [], []), (NewStream,)) is not None


def is_on_device(place: Place, value: ast.expr, depth: int = 0) -> bool:
    """Whether a tensor is a dense one of a GPU: ``record_stream`` of one of the host is an error.

    ``torch.empty(n, device="cuda")``, and what is computed from such and numbers. Sparse ones refuse it, too.
    """
    match value:
        case ast.Name(id=name) if depth < DEEPEST:
            given = all_given(place, name)
            return bool(given) and all(
                (made := part(each, value)) is not None
                and is_on_device(replace(place, statement=each.statement, behind=False), made, depth + 1)
                for each in given
            )
        case ast.BinOp(left=left, right=right):
            is_number = isinstance(right, ast.Constant)
            return is_on_device(place, left, depth) and (is_number or is_on_device(place, right, depth))
        case ast.Call(keywords=keywords):
            return _makes_dense(place.source, value) and any(
                _says(each, "device", "cuda") for each in keywords
            )
        case _:
            return False


def _makes_dense(source: Source, call: ast.Call) -> bool:
    """``torch.empty(n)``, not ``torch.sparse_coo_tensor(...)`` nor what keeps its argument's layout."""
    path = source.path_of(call.func) or ""
    return path in _DENSE and all(each.arg not in (None, "layout", "out") for each in call.keywords)


def _says(keyword: ast.keyword, name: str, beginning: str) -> bool:
    value = keyword.value
    return keyword.arg == name and isinstance(value, ast.Constant) and str(value.value).startswith(beginning)


def _stands_plainly(place: Place) -> bool:
    """Whether a line runs whenever those beside it do, in a function that is run as it is written.

    A handler is come to from anywhere, behind a ``yield`` others have run, a decorator or a context
    manager that nobody knows may capture, select a device, or swallow what is raised.
    """
    scope = place.source.scope(place.statement)
    if isinstance(scope, ast.FunctionDef):
        plain = all(is_harmless(place.source, each) for each in scope.decorator_list)
        waits = any(isinstance(node, ast.Await) for node in ast.walk(scope)) or _is_resumed(place)
        if waits or not plain:
            return False
    elif scope is not place.source.tree:
        return False
    return all(
        isinstance(each, (ast.If, ast.For, ast.While))
        or (isinstance(each, ast.With) and is_known(place.source, each))
        for each in around(place)
    )


def _is_resumed(place: Place) -> bool:
    """Whether a ``yield`` stands in front, behind which another stream may be current."""
    passed = [place.statement] if place.behind else []
    for node in (place.statement, *around(place)):
        block = place.source.block(node)
        passed += block[: block.index(node)]
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for each in passed for node in ast.walk(each))


def _is_imported(place: Place, name: str) -> bool:
    """Whether a name is bound by an import of the file that stands in front, and by nothing else anywhere."""
    known = place.source.imports.get(name)
    return known is not None and known.at is not None and known.at < at_top(place)


def _has_device(place: Place, named: Sequence[Named]) -> bool:
    """Whether there surely is a GPU where ``torch.cuda.current_stream()`` is asked for.

    An object that is a stream shows it, and so does a call in front that fails without one.
    """
    if any(each.simple for each in named) or not any(each.lib in _ON_THE_CPU_TOO for each in named):
        return True
    return any(_needs_device(place, part) for each in before(place) for part in unconditional(each))


def _needs_device(place: Place, part: ast.AST) -> bool:
    if not isinstance(part, ast.Call):
        return False
    path = place.source.path_of(part.func) or ""
    told = any(_says(each, "pin_memory", "True") or _says(each, "device", "cuda") for each in part.keywords)
    return (told and path.rpartition(".")[0] == "torch") or (
        row_of(place.source, part, (NewStream, CurrentStream)) is not None
    )


def _names(text: str) -> list[ast.Name]:
    return [node for node in ast.walk(parse(text)) if isinstance(node, ast.Name)]
