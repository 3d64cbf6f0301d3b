"""What the text of a ``while`` loop says of how often it makes passes, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.python import expr
from streamlint.interp.state import at_work, emptied
from streamlint.interp.state.values import symbol_of
from streamlint.models import vocabulary

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine


def is_idle(s: ir.While) -> bool:
    """``while not arrived: time.sleep(0.001)``: another thread, or a host function, says when to go on."""
    return all(
        isinstance(statement, ir.Jump)
        or (
            isinstance(statement, ir.Eval)
            and isinstance(statement.value, ir.Call)
            and ir.called(statement.value) == "sleep"
        )
        for statement in s.body
    )


def grows(s: ir.While) -> bool:
    """Whether its passes add to what it counts: ``while len(parts) < n: parts.append(empty)``.

    That the path takes its test to hold says nothing of the time when they are done.
    """
    counted = {
        name
        for node in ir.walk(s.test)
        if isinstance(node, ir.Call)
        and node.args
        and ir.dotted(node.func) == "len"
        and "?" not in (name := ir.dotted(node.args[0].value))
    }
    return any(
        isinstance(node, ir.Call)
        and isinstance(node.func, ir.Attr)
        and node.func.name in ir.FILLS
        and ir.dotted(node.func.value) in counted
        for node in ir.walk(s.body)
    )


def empties(m: Machine, test: ir.Expr) -> bool:
    """Whether its passes take out of what it asks for: ``while self.waiting: start(self.waiting.pop())``.

    Like one that walks a list, it makes a few passes then, and comes to its end.
    """
    match test:
        case ir.Name() | ir.Attr():
            return emptied.is_taken_from(m, symbol_of(expr.evaluate(m, test)))
        case ir.Compare(left=ir.Call() as asked) | (ir.Call() as asked):
            return ir.called(asked) == "len" and len(asked.args) == 1 and empties(m, asked.args[0].value)
        case _:
            return False


def takes(test: ir.Expr) -> bool:
    """Whether a test that holds has taken what a pass uses: ``while (x := q.get()) is not None``."""
    return any(isinstance(node, ir.Call) for node in ir.walk(test))


def may_end_in_wait(m: Machine, test: ir.Expr) -> bool:
    """Whether what a test calls may wait before it says no: ``if page is None: lane.synchronize(); return``.

    ``while exchange.drain(lane): pass`` of passes that were left out has not shown that.
    """
    module = at_work.module(m)
    called = {ir.called(node) for node in ir.walk(test) if isinstance(node, ir.Call)}
    seen = [] if module is None else [decl for decl in ir.all_functions(module) if decl.name in called]
    return not seen or any(not vocabulary.HOST_WAITS.isdisjoint(decl.called) for decl in seen)


def polls(test: ir.Expr) -> bool:
    return isinstance(test, ir.Unary) or any(
        isinstance(node, ir.Call) and ir.called(node) in vocabulary.POLLS for node in ir.walk(test)
    )
