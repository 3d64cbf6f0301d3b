"""What the lower layers ask of the one above them: to run code of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streamlint import ir
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import EventV, GeneratorV, StreamV, Value
    from streamlint.source import Span


class Evaluates(Protocol):
    def __call__(self, m: Machine, e: ir.Expr, *, called: bool = False) -> Value:
        """``called``: the expression is what a call calls."""


@frozen()
class Python:
    """Functions of ``interp/python/``, given to a machine when it is made: what they do leads back here.

    The folders below ask for them, and that folder itself where it would go round in a circle: expressions
    call, calls run functions, functions and loops hold statements, and those expressions.
    """

    call: Callable[[Machine, Value, list[Value], dict[str, Value], Span], Value]
    """Calls a value: a thread or a callback starts."""
    evaluate: Evaluates
    """Evaluates an expression in the frame that is running."""
    run_block: Callable[[Machine, Sequence[ir.Stmt]], None]
    """Runs statements in it: the body of a function or of a loop."""
    attribute: Callable[[Machine, Value, str, Span], Value]
    """Reads an attribute, which may be a property."""
    run_generator: Callable[[Machine, GeneratorV, Callable[[Value], Value], Span], Value]
    """Runs the body of a generator, and something at each of its yields."""
    step_generator: Callable[[Machine, GeneratorV, Value, Span], tuple[Value, bool] | None]
    """Sends something to a generator, which runs to its next yield: what it yields, and whether it does."""
    make_pass: Callable[[Machine, ir.For | ir.While, Value, int], bool]
    """Makes one more pass of a loop, by its number; false if the loop was left."""
    module_name: Callable[[Machine, str, str], Value]
    """A module's variable, which is evaluated when it is first needed."""
    stream_of: Callable[[Machine, Symbol], StreamV | EventV | None]
    """The stream or event that an unknown value is, if code that is not running shows it."""
