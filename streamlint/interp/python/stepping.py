"""Generators that are stepped by hand: ``storer = store(layers)``, and ``next(storer)`` behind each layer.

A generator that a loop walks runs as a whole, with the loop's body at each of its yields. One that is stepped
runs from one yield to the next, by the same statements: those around a yield are kept (``state/stepped.py``).
Generators with a yield in a ``with``, or within an expression, are not stepped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.python import binding, conditions, containers, expr, functions, objects, stmt
from streamlint.interp.state import elements, names, results
from streamlint.interp.state.ends import Jumped, Returned
from streamlint.interp.state.stepped import Block, Stepped
from streamlint.interp.state.values import NONE, GeneratorV, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

IDLE_PASSES = 8
"""Passes of a loop without a yield, of which nothing tells that there are more."""


def step(m: Machine, value: GeneratorV, sent: Value, span: Span) -> tuple[Value, bool] | None:
    """``next(generator)``: what it yields, and whether it does. None of one that cannot be stepped."""
    if value not in m.stepped:
        begun = _begun(m, value, span)
        if begun is None:
            return None
        m.stepped[value] = begun
    one = m.stepped[value]
    m.frames.append(one.frame)
    m.calls.append(span)
    try:
        for target in one.targets:
            binding.assign(m, target, sent)
        one.targets = ()
        given = _go_on(m, one)
    finally:
        m.calls.pop()
        m.frames.pop()
    return (NONE, False) if given is None else (given, True)


def run(m: Machine, value: GeneratorV, at_yield: Callable[[Value], Value], span: Span) -> Value:
    """A loop walks a generator, from where it stands: ``first = next(batches)``, ``for batch in batches``.

    Gives what the generator returns, which ``yield from`` and ``await`` ask for.
    """
    if value not in m.stepped:
        return functions.run_generator(m, value, at_yield, span)
    sent: Value = NONE
    while (given := step(m, value, sent, span)) is not None and given[1]:
        sent = at_yield(given[0])
        m.tick()
    return NONE


def _begun(m: Machine, value: GeneratorV, span: Span) -> Stepped | None:
    try:
        function, unread = functions.loaded(value.func, outside=not m.calls)
    except ir.LoweringError:
        return None
    yields = sum(isinstance(node, ir.Yield) for node in ir.walk(function.body))
    if unread or yields != len(list(_steps(function.body))):
        return None
    frame = functions.activation(m, value.func, function, list(value.args), value.kwargs, span)
    frame.begun = len(m.ops)
    m.covered.add(f"{function.module}:{function.qualname}")
    return Stepped(frame, [Block(function.body)])


def _steps(body: Sequence[ir.Stmt]) -> Iterator[ir.Yield]:
    """The yields at which a generator can stand."""
    for statement in body:
        match statement:
            case (
                ir.Eval(value=ir.Yield(delegate=False) as made)
                | ir.Assign(value=ir.Yield(delegate=False) as made)
            ):
                yield made
            case ir.For() | ir.While() | ir.If() | ir.Try():
                for part in _parts(statement):
                    yield from _steps(part)
            case _:
                pass


def _parts(statement: ir.For | ir.While | ir.If | ir.Try) -> tuple[Sequence[ir.Stmt], ...]:
    if isinstance(statement, ir.Try):
        return statement.body, statement.orelse, statement.final
    return (statement.body, statement.orelse) if isinstance(statement, ir.If) else (statement.body,)


def _go_on(m: Machine, one: Stepped) -> Value | None:
    """Runs to the next yield, and gives what it yields; None at the end."""
    idle = 0
    while one.blocks:
        block = one.blocks[-1]
        if block.at == len(block.statements):
            idle += 1
            if block.loop is None or idle > IDLE_PASSES or not _begins_pass(m, block.loop, block):
                one.blocks.pop()
            continue
        statement = block.statements[block.at]
        block.at += 1
        match statement:
            case ir.Eval(value=ir.Yield() as made):
                return _yielded(m, made)
            case ir.Assign(targets=targets, value=ir.Yield() as made):
                one.targets = targets
                return _yielded(m, made)
            case ir.For() | ir.While() | ir.If() | ir.Try() if any(_steps((statement,))):
                one.blocks += _entered(m, statement)
            case _:
                try:
                    stmt.run(m, statement)
                except Returned:
                    one.blocks[:] = _cleaning(one.blocks)
                except Jumped as jump:
                    _leave_pass(one.blocks, jump.kind)
    return None


def _yielded(m: Machine, made: ir.Yield) -> Value:
    return NONE if made.value is None else results.put_aside(m, expr.evaluate(m, made.value))


def _entered(m: Machine, statement: ir.For | ir.While | ir.If | ir.Try) -> list[Block]:
    match statement:
        case ir.For():
            source = objects.iterated(m, expr.evaluate(m, statement.iter), statement.iter.span)
            return [Block(statement.body, len(statement.body), statement, source)]
        case ir.While():
            return [Block(statement.body, len(statement.body), statement)]
        case ir.If():
            return [Block(statement.body if stmt.takes_arm(m, statement) else statement.orelse)]
        case ir.Try():
            return [Block(statement.final, cleans=True), Block(statement.orelse), Block(statement.body)]


def _begins_pass(m: Machine, loop: ir.For | ir.While, block: Block) -> bool:
    m.tick()
    if isinstance(loop, ir.While):
        goes_on = conditions.chooses(m, loop, first=True)
    else:
        item = _item(m, loop, block)
        goes_on = item is not None
        if item is not None:
            binding.walk(m, loop.target, item)
    block.at, block.turn = (0 if goes_on else block.at), block.turn + 1
    return goes_on


def _item(m: Machine, loop: ir.For, block: Block) -> Value | None:
    source, span = names.settle(m, block.source), loop.iter.span
    if isinstance(source, GeneratorV):
        given = step(m, source, NONE, span)
        return given[0] if given is not None and given[1] else None
    items = elements.listed(m, source)
    if items is not None:
        return items[block.turn] if block.turn < len(items) else None
    following = objects.following(m, source)
    if following is not None:
        item = m.python.call(m, following, [], {}, span)
        return None if objects.is_end(m, source, item) else item
    return containers.nth(m, source, block.turn, span)


def _leave_pass(blocks: list[Block], kind: str) -> None:
    """``break`` or ``continue``: what the ``try`` statements in the pass have to clean up comes first."""
    at = max((at for at, block in enumerate(blocks) if block.loop is not None), default=0)
    loop, inner = blocks[at], _cleaning(blocks[at + 1 :])
    loop.at = len(loop.statements)
    blocks[at:] = inner if kind == "break" else [loop, *inner]


def _cleaning(blocks: Sequence[Block]) -> list[Block]:
    """What runs of blocks that are left: each ``finally`` that has not begun."""
    return [block for block in blocks if block.cleans and block.at == 0]
