"""Generators that are stepped by hand: where each of them stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.state.values import NONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint import ir
    from streamlint.interp.state.frames import Frame
    from streamlint.interp.state.values import Value


@dataclass(slots=True)
class Block:
    """Statements, and which of them comes next; of a loop, what it walks and the number of the next pass."""

    statements: Sequence[ir.Stmt]
    at: int = 0
    loop: ir.For | ir.While | None = None
    source: Value = NONE
    turn: int = 0
    cleans: bool = False
    """Whether it is a ``finally``, which runs however the statements before it are left."""


@dataclass(slots=True)
class Stepped:
    """A generator behind the yield that it came to last."""

    frame: Frame
    blocks: list[Block]
    """The statements around that yield, the innermost last; none if it has come to its end."""
    targets: Sequence[ir.Expr] = field(default=())
    """What gets the value that is sent: ``batch = yield``."""

    def copied(self) -> Stepped:
        env = replace(self.frame.env, names=dict(self.frame.env.names))
        blocks = [replace(block) for block in self.blocks]
        return Stepped(replace(self.frame, env=env), blocks, self.targets)
