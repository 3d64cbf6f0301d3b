"""When memory goes back to its allocator: the last reference is dropped by rebinding, ``del`` or return."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamlint import ir
    from streamlint.interp.machine import Machine
    from streamlint.source import Span


def before_rebinding(m: Machine, target: ir.Expr, span: Span) -> None:
    """Hook for what a rebinding drops."""
    del m, target, span


def after_rebinding(m: Machine, span: Span) -> None:
    """Hook for what a rebinding has dropped."""
    del m, span
