"""Attributes of a module's object that are ``None`` until the application is set up, as it is by then.

``_CONTEXT = Context()``: ``install(args)`` sets ``self.bags``, without which ``bag(name)`` raises an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.state.kept import Kept

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import HeapV
    from streamlint.source import Span

_CALLED: Kept[Span, frozenset[str]] = Kept()
"""What functions call, by their places."""


def is_set(m: Machine, made: HeapV, cls: ir.ClassDecl, name: str) -> bool:
    """Whether other code has set an attribute that the constructor of a module's object leaves ``None``.

    Not where what is running sets it itself, or calls what does: ``if self.page is None: self._allocate()``.
    """
    if made not in m.globals.values():
        return False
    order = m.project.ancestors(cls)[0]
    setters = {
        decl.name
        for one in order
        for decl in one.methods.values()
        if name in decl.stored and decl.name != "__init__"
    }
    return bool(setters) and all(
        frame.code is None
        or (
            frame.code.qualname.rpartition(".")[2] not in setters
            and setters.isdisjoint(_called(m, frame.code))
        )
        for frame in m.frames
    )


def _called(m: Machine, function: ir.Function) -> frozenset[str]:
    return m.project.once(
        _CALLED,
        function.span,
        lambda: frozenset(ir.called(node) for node in ir.walk(function.body) if isinstance(node, ir.Call)),
    )
