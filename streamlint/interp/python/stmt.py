"""Statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint import ir
from streamlint.interp.entries import closures
from streamlint.interp.library import callbacks, tensors
from streamlint.interp.python import (
    calls,
    conditions,
    container_methods,
    containers,
    contexts,
    expr,
    functions,
    names,
    objects,
)
from streamlint.interp.state import lifetime
from streamlint.interp.state.machine import Frame, Jumped, Machine, PathEnds, Returned
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    ClassV,
    ConstV,
    Env,
    FuncV,
    GeneratorV,
    HeapV,
    Shape,
    Value,
    key_of,
)
from streamlint.models import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

UNKNOWN_LENGTH_TURNS = 2
"""Passes over a loop of unknown length: the second shows what one pass does to the next."""
INDEXED_TURNS = 3
"""Passes when the loop computes slots (``i % 2``): two-slot rings collide on the third."""
MOST_TURNS = 6
"""Passes over a loop of known length ..."""
MOST_INNER_TURNS = 3
"""... and over one inside another."""


def run_block(m: Machine, body: Sequence[ir.Stmt]) -> None:
    for statement in body:
        run(m, statement)


def run(m: Machine, s: ir.Stmt) -> None:
    """Carries out one statement."""
    m.tick()
    m.frame.statement = s.span
    m.frame.born = len(m.buffers)
    if m.frame.entered < 0:
        m.frame.entered = len(m.buffers)
    match s:
        case ir.Assign():
            value = expr.evaluate(m, s.value)
            for target in s.targets:
                names.assign(m, target, value)
        case ir.AugAssign():
            _augment(m, s)
        case ir.Eval():
            expr.evaluate(m, s.value)
        case ir.With():
            contexts.run_with(m, s.items, s.body)
        case ir.If():
            run_block(m, s.body if _if(m, s) else s.orelse)
        case ir.For():
            _for(m, s)
        case ir.While():
            _while(m, s)
        case ir.Try():
            _try(m, s)
        case ir.Match():
            _match(m, s)
        case ir.Return():
            result = expr.evaluate(m, s.value) if s.value is not None else NONE
            m.last_return = s.span
            raise Returned(result)
        case ir.Raise():
            if s.value is not None:
                expr.evaluate(m, s.value)
            raise PathEnds
        case ir.Delete():
            for target in s.targets:
                _delete(m, target)
        case ir.Jump():
            raise Jumped(s.kind)
        case ir.Assert():
            # The object that the entry is about exists, so the assertions of its constructor held.
            if not conditions.holds(m, s.test, want=True) and not m.constructing:
                raise PathEnds
        case ir.Scope():
            env = m.frame.env
            if s.kind == "global":
                env.outer |= frozenset(s.names)
            else:
                env.enclosing |= frozenset(s.names)
        case ir.Import():
            names.store(m, s.name, m.project.imported(s))
        case ir.FunctionDef():
            made = FuncV(s.function, m.frame.env)
            closures.note(m, made)
            names.store(m, s.function.name, callbacks.decorated(m, s.function, made))
        case ir.ClassDef():
            names.store(m, s.cls.name, ClassV(s.cls))
        case ir.Declare():
            pass
        case _:
            assert_never(s)
    lifetime.after_statement(m, s.span)


def _if(m: Machine, s: ir.If) -> bool:
    """An open test does not go into an arm that only raises: ``if x.dim() != 2: raise ...``.

    An arm that only leaves (``if not batch: return``) is explored after what it leaves out.
    """
    want: bool | None = None
    if s.body and isinstance(s.body[-1], ir.Raise):
        want = False
    elif s.orelse and isinstance(s.orelse[-1], ir.Raise):
        want = True
    leaves = len(s.body) == 1 and isinstance(s.body[0], (ir.Return, ir.Jump)) and not s.orelse
    return conditions.holds(m, s.test, want, lasting=True, first=False if leaves else None)


def _augment(m: Machine, s: ir.AugAssign) -> None:
    target = expr.evaluate(m, s.target)
    value = expr.evaluate(m, s.value)
    if isinstance(target, BufferV):
        if tensors.update_in_place(m, target, value, s.op, s.span):
            return
    elif isinstance(target, HeapV) and s.op in "+|" and m.heap[target.id].shape is not Shape.INSTANCE:
        container_methods.method(m, target, "extend", [value], {}, s.span)
        return
    names.assign(m, s.target, expr.binary(m, s.op, target, value, s))


def _delete(m: Machine, target: ir.Expr) -> None:
    match target:
        case ir.Name(id=name):
            m.frame.env.names.pop(name, None)
            if m.frame.function == m.frame.env.module:
                m.globals.pop((m.frame.env.module, name), None)
        case ir.Attr():
            owner = names.settle(m, expr.evaluate(m, target.value))
            if isinstance(owner, HeapV):
                m.heap[owner.id].attrs.pop(target.name, None)
        case ir.Index():
            owner = names.settle(m, expr.evaluate(m, target.value))
            at = expr.evaluate(m, target.index)
            if isinstance(owner, HeapV):
                held = m.heap[owner.id]
                held.attrs.pop(key_of(at), None)
                held.keys.pop(key_of(at), None)
                if (
                    isinstance(at, ConstV)
                    and isinstance(at.value, int)
                    and -len(held.items) <= at.value < len(held.items)
                ):
                    held.items.pop(at.value)
        case ir.Seq(items=items):
            for item in items:
                _delete(m, item)
        case _:
            expr.evaluate(m, target)


# ----------------------------------------------------------------------------- loops


def _for(m: Machine, s: ir.For) -> None:
    source = objects.iterated(m, expr.evaluate(m, s.iter), s.iter.span)
    if isinstance(source, GeneratorV):
        _for_generator(m, s, source)
        return
    m.loops += 1
    try:
        with lifetime.holding(m, source):
            for item in _turns(m, s, source):
                names.assign(m, s.target, item)
                if not _pass(m, s.body):
                    return
    finally:
        m.loops -= 1
    run_block(m, s.orelse)


def _turns(m: Machine, s: ir.For, source: Value) -> Iterator[Value]:
    """What the loop variable is bound to, pass by pass."""
    items = containers.listed(m, source)
    step = objects.following(m, source)
    if items is not None:
        yield from items[: MOST_TURNS if m.loops == 1 or _computes_slots(m, s) else MOST_INNER_TURNS]
        return
    counted = isinstance(source, HeapV) and m.heap[source.id].key in ("range", "enumerate")
    # for i in range(n): ring.push(i): the slots may be computed in what the loop calls.
    turns = INDEXED_TURNS if counted and m.loops == 1 else turns_for(m, s)
    asked = objects.asked_for(m, source)
    yield from asked[:MOST_TURNS]
    for turn in _passes(m, len(asked), turns):
        if step is None:
            yield containers.nth(m, source, turn, s.iter.span)
            continue
        try:
            item = calls.call(m, step, [], {}, s.iter.span)
        except PathEnds:
            # StopIteration
            return
        yield item


def _passes(m: Machine, first: int, turns: int) -> Iterator[int]:
    """The numbers of a loop's passes up to ``turns``, and one more where memory comes back in the last one.

    ``for row in rows: page = pinned(row); upload(page)``: the second pass drops what the first one allocated,
    and only the allocation of a third may get the same memory.
    """
    mark = lifetime.mark(m)
    for turn in range(first, turns):
        mark = lifetime.mark(m)
        yield turn
    if first < turns and lifetime.came_back(m, mark):
        yield turns


def turns_for(m: Machine, s: ir.For | ir.While) -> int:
    return INDEXED_TURNS if _computes_slots(m, s) else UNKNOWN_LENGTH_TURNS


def _computes_slots(m: Machine, s: ir.For | ir.While) -> bool:
    """Whether the loop's own text computes with ``%``, ``&`` or ``^``: ``buffers[i % 2]``."""
    known = m.project.slots.get(s.span)
    if known is None:
        text = repr(s.body)
        known = m.project.slots[s.span] = any(f"op='{op}'" in text for op in "%&^")
    return known


def _pass(m: Machine, body: Sequence[ir.Stmt]) -> bool:
    """One pass; false if the loop was left by ``break``."""
    try:
        run_block(m, body)
    except Jumped as jump:
        return jump.kind == "continue"
    return True


def _for_generator(m: Machine, s: ir.For, source: GeneratorV) -> None:
    """The generator's body runs, and the loop body runs at each of its yields."""
    frame = m.frame
    returned: list[Returned] = []

    def at_yield(value: Value) -> Value:
        m.frames.append(frame)
        try:
            names.assign(m, s.target, value)
            if not _pass(m, s.body):
                raise _LoopLeft
        except Returned as leaving:
            # It leaves the function of the loop, not the generator that runs just now.
            returned.append(leaving)
            raise _LoopLeft from None
        finally:
            m.frames.pop()
        return NONE

    try:
        functions.run_generator(m, source, at_yield, s.iter.span)
    except _LoopLeft:
        if returned:
            raise returned[0] from None
        return
    run_block(m, s.orelse)


class _LoopLeft(Exception):
    """``break`` or ``return`` out of a loop over a generator."""


def _while(m: Machine, s: ir.While) -> None:
    endless = isinstance(s.test, ir.Const)
    for turn in _passes(m, 0, turns_for(m, s) if s.body else 1):
        if not conditions.holds(m, s.test, want=True if turn == 0 and not _polls(s.test) else None):
            break
        if not _pass(m, s.body):
            return
    else:
        # The loop is left with its test false: ``while not e.query(): pass`` ends synchronized.
        if not endless and conditions.holds(m, s.test, want=False):
            raise PathEnds
    run_block(m, s.orelse)


def _polls(test: ir.Expr) -> bool:
    return isinstance(test, ir.Unary) or "query" in repr(test) or "Query" in repr(test)


# ----------------------------------------------------------------------------- the rest


def _try(m: Machine, s: ir.Try) -> None:
    """Exceptions are not followed, except a ``raise`` that a handler of the same statement catches."""
    try:
        try:
            run_block(m, s.body)
        except PathEnds:
            if not s.handlers or m.cut:
                raise
            run_block(m, s.handlers[0].body)
        else:
            run_block(m, s.orelse)
    finally:
        if s.final and not m.cut:
            run_block(m, s.final)


def _match(m: Machine, s: ir.Match) -> None:
    subject = names.settle(m, expr.evaluate(m, s.subject))
    for position, case in enumerate(s.cases):
        for name in case.captures:
            names.store(m, name, subject)
        if case.pattern is None and case.guard is None and not case.captures:
            run_block(m, case.body)
            return
        if case.pattern is not None:
            value = expr.compare(
                m,
                "==",
                subject,
                expr.evaluate(m, case.pattern),
                ir.Compare(s.span, "==", s.subject, case.pattern),
            )
            matched = conditions.truth(m, value, case.pattern)
        elif case.guard is not None:
            matched = conditions.holds(m, case.guard)
        else:
            matched = conditions.ask(m, f"match {key_of(subject)} {position}", s.subject)
        if matched:
            run_block(m, case.body)
            return


def at_module_level(
    m: Machine, module: ir.Module, e: ir.Expr, known: dict[str, Value] | None = None
) -> Value | None:
    """Evaluates an expression in a module's own scope, for variables and defaults.

    ``known`` are local names that it may use.
    """
    if len(m.frames) > 40:
        return None
    frame = Frame(Env(known or {}, module.name), module.name, touches=False)
    m.frames.append(frame)
    # What it is does not depend on how deep the calls are in which it is first asked for.
    calls_, m.calls = m.calls, []
    try:
        return expr.evaluate(m, e)
    finally:
        m.calls = calls_
        m.frames.pop()


def function_touches(function: ir.Function | ir.FunctionDecl) -> bool:
    return words.touches(function.names) if isinstance(function, ir.FunctionDecl) else True
