"""Functions that a path is in, and what it calls on objects of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint import ir
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import Env, Value
    from streamlint.source import Span


@dataclass(slots=True)
class Consumer:
    """A loop that walks a generator: what it does with each value, and the function that it stands in."""

    frame: Frame
    consume: Callable[[Frame, Value], Value]

    def __call__(self, value: Value) -> Value:
        return self.consume(self.frame, value)


@dataclass(slots=True)
class Frame:
    """One function activation."""

    env: Env
    function: str
    touches: bool
    """Whether the function's own text mentions streams; its branches are explored first."""
    on_yield: Callable[[Value], Value] | None = None
    leads: bool = False
    """Whether it calls functions of its module whose text does."""
    follows: bool = False
    """Whether its text leaves the stream that it works on, and all order, to its caller."""
    text: str = ""
    statement: Span | None = None
    operators_only: bool = False
    """Whether it is in the block of a stream or a capture that calls nothing: operators are its work."""
    walks: bool = False
    """Whether the target of a loop is being bound."""
    calling: ir.Call | None = None
    """The call that is being made, as it is written."""
    unused: ir.Expr | None = None
    """The expression that stands as a statement: nobody uses its value."""
    gradless: bool = False
    """Whether PyTorch keeps no operands for a backward pass: in ``torch.no_grad()``."""
    code: ir.Function | None = None
    """What runs, where that is a function."""
    cls: ir.ClassDecl | None = None
    receiver: Value | None = None
    """The object whose method runs."""
    result: Value | None = None
    begun: int = 0
    """How many ops there were when it was called."""
    born: int = 0
    """Buffers there were when the running statement began ..."""
    entered: int = -1
    """... and when the first one did."""
    objects: int = 0
    """Objects there were when the running statement began."""
    asked: int = 0
    """Open tests there had been on the path when the running statement began ..."""
    tested: ir.If | ir.While | ir.Choice | ir.Match | None = None
    """The statement or expression whose arms the test that is being decided chooses from."""
    denied: bool = False
    """Whether its arm is run where what is being asked does not hold: ``if not skipped: ...``."""
    under: tuple[Symbol, ...] = ()
    """... and those of the ``if`` statements around it."""
    question: tuple[ir.Call, bool] | None = None
    """The call that a test consists of, and the answer by which what follows is run ..."""
    wanted: bool | None = None
    """... and for the function that is called, which answer its caller would have first."""
    needed: ir.Call | None = None
    """The call without whose result the statement behind it ends all ..."""
    gives: bool = False
    """... and for the function that is called, whether its caller needs it to give something."""


class Driven(NamedTuple):
    """A method that a program calls on an object that it has made, or in a loop on one that it was given."""

    cls: str
    """Module and name of the class."""
    method: str
    endless: bool
    """Whether a loop of unknown length calls it, again and again on the same object.

    ``for halo in self.halos: halo.start(x)`` does not, ``for row in rows: halo.start(row)`` does."""
    step: bool
    """Whether another method of the object does, as ``next`` calls ``self.preload()``."""
    on: int = 0
    """The object, by its number on the heap: what is called on one says nothing of the calls of another."""
    times: int = 1
    """Which call of it on one object this is."""
    shown: frozenset[str] = frozenset()
    """The parameters for which it passes memory of its own: what is pending on that then is seen there."""
    kept: bool = False
    """Whether a variable of a module holds the object: the function that calls the method is called again."""
