"""What decorators make of a function, by what their names stand for in its module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir, models
from streamlint.interp.state.values import ApiV
from streamlint.models import jax, python
from streamlint.models import triton as triton_model

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from streamlint.interp.state.project import Project
    from streamlint.models.schema import Lib


def paths(project: Project, function: ir.FunctionDecl | ir.Function) -> Iterator[str]:
    """What each decorator is: ``"numba.cuda.jit"`` for ``@cuda.jit(fastmath=True)``."""
    for decorator in function.decorators:
        text = decorator if isinstance(decorator, str) else ir.dotted(decorator)
        yield _resolved(project, function.module, text)


def _resolved(project: Project, module: str, text: str) -> str:
    head, dot, rest = text.partition(".")
    found = project.member(module, head)
    if isinstance(found, ApiV):
        return f"{found.path}{dot}{rest}"
    # An import inside a function is not a member of the module.
    return "numba.cuda.jit" if text == "cuda.jit" else text


def chosen(project: Project, function: ir.FunctionDecl | ir.Function, among: Container[str]) -> str | None:
    """Which of some decorators a function has."""
    return next((path for path in paths(project, function) if path in among), None)


# ----------------------------------------------------------------------------- kernels


def kernel_of(project: Project, function: ir.FunctionDecl | ir.Function) -> Lib | None:
    """Whose kernel a function is; None for a plain function."""
    path = chosen(project, function, models.KERNEL_DECORATORS) if function.decorators else None
    return models.KERNEL_DECORATORS[path] if path is not None else None


def is_foreign(project: Project, function: ir.FunctionDecl | ir.Function) -> bool:
    """Whether a compiler that is not modelled takes the body: ``@cute.jit``, ``@jax.jit``."""
    return bool(function.decorators) and any(
        path in jax.COMPILES
        or (
            "." in path
            and path.rpartition(".")[2] in triton_model.MAKES_KERNELS
            and path.partition(".")[0] not in models.ROOTS
        )
        for path in paths(project, function)
    )


# ----------------------------------------------------------------------------- Python's own

_STATIC, _OF_CLASS = frozenset({staticmethod.__name__}), frozenset({classmethod.__name__})


def is_static(function: ir.FunctionDecl | ir.Function) -> bool:
    """``@staticmethod``: it gets no object."""
    return _has(function, _STATIC)


def is_of_class(function: ir.FunctionDecl | ir.Function) -> bool:
    """``@classmethod``: it gets the class."""
    return _has(function, _OF_CLASS)


def is_property(function: ir.FunctionDecl | ir.Function) -> bool:
    """Whether to read it is to call it."""
    return _has(function, python.PROPERTIES)


def is_abstract(function: ir.FunctionDecl | ir.Function) -> bool:
    """Whether it is left to derived classes."""
    return _has(function, python.ABSTRACT)


def is_cached(function: ir.FunctionDecl | ir.Function) -> bool:
    """Whether it gives the same each time."""
    return _has(function, python.CACHES)


def dispatches(function: ir.FunctionDecl | ir.Function) -> bool:
    """``@singledispatch``: which of the functions that were registered for it runs, the argument tells."""
    return _has(function, python.DISPATCHES)


def makes_context(function: ir.FunctionDecl | ir.Function) -> bool:
    """``@contextmanager``: its body is a context, up to its ``yield`` and from there on."""
    return _has(function, python.MAKES_CONTEXTS)


def _has(function: ir.FunctionDecl | ir.Function, names: frozenset[str]) -> bool:
    """Whether it has a decorator with one of Python's names, which other packages give theirs too."""
    return not names.isdisjoint(ir.decorated_by(function))
