"""Statements."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint import ir
from streamlint.interp.facts import arms
from streamlint.interp.library import annotated, callbacks, escape, in_place, monitors, weakly
from streamlint.interp.python import (
    binding,
    comparisons,
    conditions,
    container_methods,
    containers,
    expr,
    going_on,
    halves,
    inner_functions,
    keys,
    loops,
    with_statements,
)
from streamlint.interp.state import giving_up, lifetime, names, results, symbols
from streamlint.interp.state.ends import Blocked, Jumped, PathEnds, Returned
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    ClassV,
    ConstV,
    HeapV,
    Shape,
    SliceV,
    symbol_of,
)
from streamlint.models.python import PUBLIC_SPECIALS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import Value


def run_block(m: Machine, body: Sequence[ir.Stmt]) -> None:
    for number, statement in enumerate(body, 1):
        if isinstance(statement, ir.Assign):
            going_on.note(m.frame, statement, islice(body, number, None))
        run(m, statement)


def run(m: Machine, s: ir.Stmt) -> None:
    """Carries out one statement."""
    m.tick()
    if isinstance(s, ir.Eval) and isinstance(s.value, ir.Const):
        # A docstring: what happens when a call begins happens at its first statement.
        return
    _begins(m, s)
    _carry_out(m, s)
    giving_up.used_since(m)
    lifetime.after_statement(m, s.span)
    if m.life.finalizers:
        weakly.after_statement(m, s.span)
    if m.watch is not None:
        m.watch.ended(m, s)


def _begins(m: Machine, s: ir.Stmt) -> None:
    frame = m.frames[-1]
    frame.statement = s.span
    frame.born = len(m.buffers)
    frame.objects = len(m.heap)
    frame.asked = len(m.oracle.taken)
    if frame.entered < 0:
        frame.entered = frame.born
    if m.watch is not None:
        m.watch.begins(m, s)


def _carry_out(m: Machine, s: ir.Stmt) -> None:
    match s:
        case ir.Assign():
            value = _assigned(m, s)
            if isinstance(s.value, (ir.Name, ir.Attr)):
                value = results.named(m, value)
            for target in s.targets:
                binding.assign(m, target, value)
        case ir.AugAssign():
            _augment(m, s)
        case ir.Eval():
            m.frames[-1].unused = s.value
            expr.evaluate(m, s.value)
        case ir.With():
            with_statements.run_with(m, s.items, s.body)
        case ir.If():
            _run_arm(m, s.body if takes_arm(m, s) else s.orelse)
        case ir.For():
            loops.run_for(m, s)
        case ir.While():
            loops.run_while(m, s)
        case ir.Try():
            _try(m, s)
        case ir.Match():
            _match(m, s)
        case ir.Return():
            raise Returned(_returned(m, s))
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
            needs = not m.constructing
            if not conditions.holds(m, s.test, want=True, needs=needs) and needs:
                raise PathEnds
        case ir.Scope() | ir.Import() | ir.FunctionDef() | ir.ClassDef() | ir.Declare():
            _declare(m, s)
        case ir.Unread():
            m.cut.append(s.why)
            escape.barrier(m, escape.all_streams(m), s.span, "what was not read")
        case _:
            assert_never(s)


def _assigned(m: Machine, s: ir.Assign) -> Value:
    """What is assigned. What a later test asks for is decided like that.

    ``wide = self.scale is None and self._is_wide(x)``, and then ``if wide: self.side.wait_stream(current)``.
    """
    frame = m.frame
    asks = None
    if frame.touches and frame.code is not None and isinstance(s.value, (ir.Boolean, ir.Unary, ir.Call)):
        asks = arms.asks_later(m.project, frame.code, s)
    if asks is None:
        return expr.evaluate(m, s.value)
    leaves = isinstance(asks.test, ir.If) and not asks.test.orelse and _only_leaves(m, asks.test)
    around = frame.tested, frame.denied
    frame.tested, frame.denied = asks.test, asks.denied
    try:
        return expr.answer(m, s.value, asks.denied if leaves else None)
    finally:
        frame.tested, frame.denied = around


def _declare(m: Machine, s: ir.Scope | ir.Import | ir.FunctionDef | ir.ClassDef | ir.Declare) -> None:
    """What only says what a name means."""
    env = m.frame.env
    match s:
        case ir.Scope(kind="global"):
            env.outer |= frozenset(s.names)
        case ir.Scope():
            env.enclosing |= frozenset(s.names)
        case ir.Import():
            binding.store(m, s.name, m.project.imported(s))
        case ir.FunctionDef():
            made = inner_functions.defined(m, s.function)
            inner_functions.note(m, made)
            binding.store(m, s.function.name, callbacks.decorated(m, s.function, made))
        case ir.ClassDef():
            m.made_in[s.cls] = env
            binding.store(m, s.cls.name, ClassV(s.cls))
        case ir.Declare(target=ir.Name(id=name)) if name in env.names:
            annotated.says(m, env.module, s.annotation, env.names[name])
        case ir.Declare():
            pass
        case _:
            assert_never(s)


def _run_arm(m: Machine, body: Sequence[ir.Stmt]) -> None:
    """The statements that a test has chosen, which is known as long as they run."""
    frame = m.frames[-1]
    around = frame.under
    frame.under = (*around, *m.asked_by_constructor())
    try:
        run_block(m, body)
    finally:
        frame.under = around


def takes_arm(m: Machine, s: ir.If) -> bool:
    """An open test does not go into an arm that only raises: ``if x.dim() != 2: raise ...``.

    An arm that only leaves (``if not batch: return``) is explored after what it leaves out, and so is one
    that leaves a constructor, whatever it did: the methods want an object that is whole.
    """
    want: bool | None = None
    if s.body and isinstance(s.body[-1], ir.Raise):
        want = False
    elif s.orelse and isinstance(s.orelse[-1], ir.Raise):
        want = True
    return conditions.chooses(m, s, want, lasting=True, first=_first_arm(m, s), needs=want is not None)


def _first_arm(m: Machine, s: ir.If) -> bool | None:
    """The answer that is explored first, if the arms tell it."""
    if m.frame.wanted is not None and (given := _given_at_once(s.body)) is not None:
        # As in ``if rows.numel() < self.least: return True``.
        return given == m.frame.wanted
    if (first := going_on.first_arm(m.frame, s)) is not None:
        return first
    leaves = not s.orelse and (_only_leaves(m, s) or (m.constructing and _leaves_constructor(m, s.body)))
    return False if leaves else None


def _given_at_once(body: Sequence[ir.Stmt]) -> bool | None:
    match body:
        case [*_, ir.Return(value=ir.Const(value=bool() as given))]:
            return given
        case _:
            return None


def _only_leaves(m: Machine, s: ir.If) -> bool:
    """Whether an arm leaves, and what it leaves out may have to do with streams, while it has not.

    ``skipped += 1; return``: what is counted on the way says nothing of what follows. Nor does what is
    given where there is nothing to do: ``if rows == 0: ...; return x.new_empty(0)``.
    """
    if not s.body or not isinstance(s.body[-1], (ir.Return, ir.Jump)):
        return False
    counts = all(isinstance(one, ir.AugAssign) for one in s.body[:-1])
    if counts or _asks_for_nothing(s.test):
        return True
    works = m.frame.touches or m.frame.leads
    return works and not arms.tell(m.project, m.frame.env.module, s, m.frame.code)


def _asks_for_nothing(test: ir.Expr) -> bool:
    match test:
        case ir.Compare(op="==", right=ir.Const(value=0)):
            return True
        case _:
            return False


def _leaves_constructor(m: Machine, body: Sequence[ir.Stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ir.Return) and m.frame.function.endswith(".__init__")


def _augment(m: Machine, s: ir.AugAssign) -> None:
    target = expr.evaluate(m, s.target)
    value = expr.evaluate(m, s.value)
    if isinstance(target, BufferV):
        if in_place.operator(m, target, value, s.op, s.span):
            return
    elif isinstance(target, HeapV) and s.op in "+|" and m.heap[target.id].shape is not Shape.INSTANCE:
        container_methods.method(m, target, "extend", [value], {}, s.span)
        return
    binding.assign(m, s.target, expr.binary(m, s.op, target, value, s))


def _delete(m: Machine, target: ir.Expr) -> None:
    match target:
        case ir.Name(id=name):
            variable = m.frame.env.names.pop(name, NONE)
            monitors.drop_aside(m, [variable], target.span)
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
                containers.of_its_own(m, held, target.span)
                containers.changes(m, owner)
                taken = keys.taken(m, held, symbol_of(at))
                if taken is not None:
                    monitors.take_aside(m, taken, target.span)
                if (
                    isinstance(at, ConstV)
                    and isinstance(at.value, int)
                    and -len(held.items) <= at.value < len(held.items)
                ):
                    held.items.pop(at.value)
                elif isinstance(at, SliceV) and held.shape is Shape.LIST:
                    kept = halves.left(m, owner, at)
                    held.items = held.items if kept is None else kept
        case ir.Seq(items=items):
            for item in items:
                _delete(m, item)
        case _:
            expr.evaluate(m, target)


# ----------------------------------------------------------------------------- the rest


def _nothing_returned(m: Machine) -> None:
    m.last_return = None


def _returned(m: Machine, s: ir.Return) -> Value:
    """What a statement returns, noted as the place where it is handed out."""
    _nothing_returned(m)
    if s.value is not None:
        going_on.hand_on(m.frame, s.value)
    result = expr.answer(m, s.value, m.frames[-1].wanted) if s.value is not None else NONE
    if m.last_return is None or not _only_hands_on(s):
        m.last_return = s.span
    return result


def _only_hands_on(s: ir.Return) -> bool:
    """``def next(self): return self.__next__()``: callers may call that too, and it hands out the same."""
    match s.value:
        case ir.Call(func=ir.Attr(value=ir.Name(), name=name), args=()):
            return not name.startswith("_") or name in PUBLIC_SPECIALS
        case _:
            return False


def _try(m: Machine, s: ir.Try) -> None:
    """Exceptions are not followed, except a ``raise`` that a handler of the same statement catches."""
    is_left = True
    try:
        try:
            run_block(m, s.body)
        except PathEnds:
            if not s.handlers or m.cut:
                raise
            run_block(m, s.handlers[0].body)
        else:
            run_block(m, s.orelse)
    except Blocked:
        # The thread stands in the block still: try: self.full.get() finally: self.empty.put(None)
        is_left = False
        raise
    finally:
        if s.final and is_left and not m.cut:
            run_block(m, s.final)


def _match(m: Machine, s: ir.Match) -> None:
    subject = names.settle(m, expr.evaluate(m, s.subject))
    for position, case in enumerate(s.cases):
        for name in case.captures:
            binding.store(m, name, subject)
        if case.pattern is None and case.guard is None and not case.captures:
            run_block(m, case.body)
            return
        around, m.frame.tested = m.frame.tested, s
        try:
            matched = _matches(m, s, position, subject)
        finally:
            m.frame.tested = around
        if matched:
            run_block(m, case.body)
            return


def _matches(m: Machine, s: ir.Match, position: int, subject: Value) -> bool:
    case = s.cases[position]
    if case.pattern is not None:
        pattern = expr.evaluate(m, case.pattern)
        equal = ir.Compare(s.span, "==", s.subject, case.pattern)
        return conditions.truth(m, comparisons.compare(m, "==", subject, pattern, equal), case.pattern)
    if case.guard is not None:
        return conditions.holds(m, case.guard)
    key = symbols.call("match", symbol_of(subject), symbols.constant(position))
    return conditions.ask(m, key, s.subject)
