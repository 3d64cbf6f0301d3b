"""Which parameters a function treats as tensors, seen from its whole text.

``slots.record_stream(s)`` at the end of a function shows that ``table[slots]`` at its start gathered
on a stream, and did not pick one row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.project import Project

ONLY_TENSORS_HAVE = frozenset(
    "record_stream copy_ clone contiguous detach numel element_size data_ptr is_contiguous zero_ fill_ "
    "add_ mul_ reshape index_select is_pinned pin_memory storage_offset untyped_storage index_copy_ "
    "masked_fill_".split()
)


def tensor_names(project: Project, function: ir.Function) -> frozenset[str]:
    """Names on which the function calls a method that only tensors have."""
    key = (function.module, function.qualname, function.span)
    known = project.evidence.get(key)
    if known is None:
        known = project.evidence[key] = frozenset(_names(function.body))
    return known


def _names(body: tuple[ir.Stmt, ...]) -> Iterator[str]:
    for node in ir.walk(body):
        match node:
            case ir.Call(func=ir.Attr(value=ir.Name(id=name), name=method)) if method in ONLY_TENSORS_HAVE:
                yield name
            case _:
                pass
