"""The module whose code runs, and the words of its text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.state.kept import Kept

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine

_WORDS: Kept[ir.Module, frozenset[str]] = Kept()
_STORED: Kept[ir.Module, frozenset[str]] = Kept()


def module(m: Machine) -> ir.Module | None:
    return m.project.module(m.frame.env.module) if m.frames else None


def words(m: Machine) -> frozenset[str]:
    """All names that the module uses anywhere: what they stand for may have been called before."""
    found = module(m)
    if found is None:
        return frozenset()
    return m.project.once(
        _WORDS, found, lambda: found.body_names.union(*(decl.names for decl in ir.all_functions(found)))
    )


def stored(m: Machine) -> frozenset[str]:
    """The attributes that functions of the module put on something, whatever that is."""
    found = module(m)
    if found is None:
        return frozenset()
    return m.project.once(
        _STORED,
        found,
        lambda: frozenset(name for decl in ir.all_functions(found) for name in decl.stored),
    )
