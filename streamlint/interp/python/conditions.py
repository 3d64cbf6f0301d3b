"""Tests: what is known, and how undecided conditions are keyed so that equal ones agree."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import replace
from streamlint.interp.facts import answers, arms, environment
from streamlint.interp.library import engines, monitors, tensors, threads, used_as
from streamlint.interp.python import kinds, known_comparisons, later_passes, objects
from streamlint.interp.state import at_work, elements, emptied, lengths, names, symbols
from streamlint.interp.state.decisions import Asked
from streamlint.interp.state.values import (
    ApiV,
    BufferV,
    Comparison,
    ConstV,
    EventV,
    Flavor,
    HeapV,
    QueryV,
    StreamV,
    SymV,
    Value,
    symbol_of,
)
from streamlint.models import host, members
from streamlint.models import torch as torch_model
from streamlint.models.python import TELLS_TRUTH
from streamlint.trace import QUERY, BufferId, Purpose, SyncEvent, SyncStream

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span
    from streamlint.trace import Region


def chooses(
    m: Machine,
    of: ir.If | ir.While | ir.Choice,
    want: bool | None = None,
    *,
    lasting: bool = False,
    first: bool | None = None,
    needs: bool = False,
) -> bool:
    """Decides which arm is taken, and whether a loop goes on. The rest is as for ``holds``."""
    frame = m.frame
    around = frame.tested, frame.denied
    frame.tested, frame.denied = of, False
    try:
        return holds(m, of.test, want, lasting=lasting, first=first, needs=needs)
    finally:
        frame.tested, frame.denied = around


def holds(
    m: Machine,
    e: ir.Expr,
    want: bool | None = None,
    *,
    lasting: bool = False,
    first: bool | None = None,
    needs: bool = False,
) -> bool:
    """Decides a condition. ``want`` is the answer where it is open, which is then not explored.

    A ``lasting`` answer also holds for equal conditions later; leaving a loop does not last. ``first`` is the
    answer that is explored first. A path that ``needs`` the answer which it wants ends if it has another one.
    """
    match e:
        case ir.Unary(op="not"):
            frame = m.frame
            frame.denied = not frame.denied
            try:
                return not holds(
                    m, e.operand, _opposite(want), lasting=lasting, first=_opposite(first), needs=needs
                )
            finally:
                frame.denied = not frame.denied
        case ir.Boolean():
            stop = e.op == "or"
            # Of ``assert a or b`` each may fail.
            each = needs and want is not stop
            for operand in e.operands:
                if holds(m, operand, want, lasting=lasting, first=first, needs=each) == stop:
                    return stop
                if stop and first is None and _asks_for_nothing(operand):
                    # if page is None or page.numel() < n: page = torch.empty(n): mostly it is large enough.
                    first = False
            return not stop
        case _:
            return truth(m, asked(m, e, first), e, want, lasting=lasting, first=first, needs=needs)


def _asks_for_nothing(e: ir.Expr) -> bool:
    """Whether a test holds where there is nothing yet: ``page is None``, ``key not in pages``."""
    match e:
        case ir.Compare(op="is", right=ir.Const(value=None)) | ir.Compare(op="not in"):
            return True
        case ir.Unary(op="not", operand=ir.Compare(op="in")):
            return True
        case _:
            return False


def asked(m: Machine, e: ir.Expr, first: bool | None) -> Value:
    """The value that a test is about. A function that is called for it knows which answer comes first.

    ``if self._is_skipped(rows): return`` leaves out what follows where one of many reasons holds that the
    function asks for: ``return backend.is_synchronous() or rows.numel() < self.least``.
    """
    if not isinstance(e, ir.Call):
        return m.python.evaluate(m, e)
    frame = m.frame
    answer = _works_only_then(m) if first is None else first
    if answer is None:
        return m.python.evaluate(m, e)
    around, frame.question = frame.question, (e, answer)
    try:
        return m.python.evaluate(m, e)
    finally:
        frame.question = around


def _works_only_then(m: Machine) -> bool | None:
    """The answer by which the arm is run, where only that of the statement says something of streams.

    ``if self._is_wanted(x): self.lane.wait_event(ready)``: none of its reasons against it holds.
    """
    tested = m.frame.tested
    return not m.frame.denied if isinstance(tested, ir.If) and not tested.orelse and _tells(m) else None


def _opposite(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def truth(
    m: Machine,
    value: Value,
    e: ir.Expr,
    want: bool | None = None,
    *,
    lasting: bool = False,
    first: bool | None = None,
    needs: bool = False,
) -> bool:
    value = _as_told(m, names.settle(m, value), e.span)
    known = answers.constant(m, value)
    if known is not None:
        is_open = want is None and later_passes.answers_otherwise(m, e, known=known)
        return _of_a_later_pass(m, e, known=known) if is_open else known
    match value:
        case QueryV(of, status, negated):
            # A status code is zero, and false, when the work is complete.
            flip = negated != status
            return _query(m, of, e.span, want if want is None else want != flip) != flip
        case BufferV(flavor=Flavor.OPAQUE):
            return ask(m, symbols.call("bool", symbol_of(value)), e, want)
        case BufferV():
            tensors.read_on_host(m, value, e.span, "truth test")
            return ask(m, m.fresh("truth", e.span).symbol, e, want)
        case _:
            key = emptied.is_any_left(m, symbol_of(value))
            return ask(m, key, e, want, lasting=lasting, first=first, needs=needs)


def _of_a_later_pass(m: Machine, e: ir.Expr, *, known: bool) -> bool:
    """The answer that is known, or on another path that of a later pass."""
    key, usual = m.fresh("a later pass", e.span).symbol, int(not known)
    return m.oracle.choose(key, text_of(e), default=usual, known=usual, tells=_tells(m)) == 0


def _as_told(m: Machine, value: Value, span: Span) -> Value:
    """``while ring:`` of an object whose class says when it is true, or how much is in it."""
    told = objects.told_by_class(m, value, TELLS_TRUTH, span)
    return value if told is None else names.settle(m, told)


def _query(m: Machine, of: StreamV | EventV | HeapV, span: Span, want: bool | None) -> bool:
    """``query()`` that answered true is a host synchronization; false orders nothing.

    So is ``future.done()`` of the thread that runs its function, and ``arrived.wait(5)`` of a flag.
    """
    key = m.unlike_any(symbols.call("query", symbol_of(of)), span)
    # while True: if event.query(): break: that it is never done is no run of the program.
    label = f"an endless loop's {QUERY}" if m.endless else QUERY
    done = m.oracle.choose(key, label, default=0 if want is None or want else 1, tells=False) == 0
    if want is not None:
        done = want
    if done:
        if isinstance(of, StreamV):
            m.emit(SyncStream(m.site(span), m.lane, stream=of.id, name="query", purpose=Purpose.ANSWER))
        elif isinstance(of, HeapV) and of.id in m.monitors:
            monitors.wait(m, of, span, "wait", limited=True)
        elif isinstance(of, HeapV):
            threads.joined(m, of, span)
        else:
            m.emit(SyncEvent(m.site(span), m.lane, event=of.id, name="query", purpose=Purpose.ANSWER))
    return done


def ask(
    m: Machine,
    key: Symbol,
    e: ir.Expr,
    want: bool | None = None,
    *,
    lasting: bool = False,
    first: bool | None = None,
    needs: bool = False,
) -> bool:
    """Decides what nothing is known of; equal keys get equal answers on a path."""
    key, negated = symbols.question(key)
    if isinstance(key, symbols.Memory):
        # data = file.read(n); if data: memmove(page, data, len(data)); ...; while len(data): ...
        key = _known_as(m, key.number, key.region) or key
    if answers.is_excluded(m, key):
        return negated
    if engines.is_other_way(m, key):
        return not negated
    if want is not None and key not in m.oracle.memo:
        if lasting:
            m.oracle.answer(key, int(want == negated))
        return want
    if want is not None and needs:
        # if not x.is_contiguous(): x = recovered(x), which has asked that before and gives x back
        m.oracle.shows(key, int(want == negated))
    relevant = m.frame.touches and not m.constructing
    leads = m.frame.leads and not m.constructing
    default = _first_arm(m, key, first, negated=negated)
    label = f"not {text_of(e)}" if negated else text_of(e)
    alike = _of_any_call(m, key)
    tells = _tells(m)
    asked = Asked(e.span, negated, _leads_on(m, holds=(default == 1) != negated))
    answer = (
        m.oracle.choose(
            key,
            label,
            default=default,
            relevant=relevant,
            leads=leads,
            tells=tells,
            alike=alike,
            asked=asked,
        )
        == 0
    )
    if key in m.comparisons:
        lengths.told(m, m.comparisons[key], holds=answer)
    if answer and key in m.compared:
        side, other = m.compared[key]
        m.equal[side] = other
    if answer:
        kinds.shown_by(m, key)
    else:
        used_as.denied(m, key)
    return answer != negated


def _leads_on(m: Machine, *, holds: bool) -> bool:
    """Whether an answer leads into code of the test being decided, behind which the path goes on."""
    frame = m.frame
    if not isinstance(frame.tested, ir.If):
        return False
    arm = frame.tested.body if holds != frame.denied else frame.tested.orelse
    return bool(arm) and not isinstance(arm[-1], (ir.Return, ir.Jump, ir.Raise))


def _tells(m: Machine) -> bool:
    """Whether it can be told which arm of the test being decided is taken, by what the arms do."""
    tested = m.frame.tested if m.frame.touches and not m.constructing else None
    return tested is not None and arms.tell(m.project, m.frame.env.module, tested, m.frame.code)


def _of_any_call(m: Machine, key: Symbol) -> Symbol:
    """What ``x.is_contiguous()`` asks of the argument ``x`` in any call: in each it is other memory.

    So with ``[c if c.is_pinned() else c.pin_memory() for c in chunks]``, where each element is other memory,
    and with what a function that is not seen says of each: ``if is_quantized(param): ...``.
    """
    match key:
        case symbols.Call(symbols.Name("bool"), (symbols.Memory(number, ()),)):
            made = m.buffers[BufferId(number)].span
            return key if made is None else symbols.call("bool", _made_at(made))
        case symbols.Call(symbols.Attr(symbols.Memory(number, region), name), args):
            passed = m.buffers[BufferId(number)].passed
            if passed is None or passed.part:
                known = _known_as(m, number, region)
                return key if known is None else symbols.Call(symbols.Attr(known, name), args)
            which = symbols.constant(passed.name), symbols.constant(str(region))
            return symbols.Call(symbols.Attr(symbols.call("argument", *which), name), args)
        case _:
            return key


def _made_at(span: Span) -> Symbol:
    return symbols.Fresh(symbols.Name("result"), span.path, span.line, span.col, 0, 0, 0)


def _known_as(m: Machine, number: int, region: Region) -> Symbol | None:
    """The unknown value that turned out to be some memory: an element, or an attribute."""
    for symbol, role in m.roles.items():
        if isinstance(role, BufferV) and (role.id, role.region) == (number, region):
            return symbol
    return None


def _first_arm(m: Machine, key: Symbol, first: bool | None, *, negated: bool) -> int:
    """What is known of the machine goes before what the arms of the test do: see ``_usual``."""
    usual = _usual(m, key)
    if usual is not None:
        return int(not usual)
    return _default(m, key, negated=negated) if first is None else int(first == negated)


def _usual(m: Machine, key: Symbol) -> bool | None:
    """What a test says of a machine with CUDA, and where nobody has set variables of the environment.

    ``def is_cpu(): return os.getenv("USE_CPU", "0") == "1"``: that is for helpers, which have nothing to do
    with streams. What else asks for ``os.getenv("OVERLAP", "0")`` does so for what it has to show.
    """
    if _asks_for_other_accelerator(key):
        return False
    return None if m.frame.touches else environment.usual_answer(key)


def _default(m: Machine, key: Symbol, *, negated: bool) -> int:
    """The arm explored first: values are present, streams differ, no flag of a thread is set.

    Nothing is being compiled or captured.

    What is asked of constants holds as it is written: ``if name not in ("mask", "id"):``.
    """
    if engines.direction(key) is not None:
        return int(engines.goes_other_way(m, key))
    match m.comparisons.get(key):
        case Comparison("is", _, ConstV(None)):
            return 1
        case Comparison("==" | "is", StreamV(), _) | Comparison("==" | "is", _, StreamV()):
            return 1
        case Comparison("==", _, ConstV()):
            return int(negated)
        case Comparison("in", _, among) if _are_constants(m, among):
            return int(negated)
        case None if _asks_for_what_nobody_puts(m, key):
            return 1
        case _:
            called = symbols.last_called(key)
            # while not self.stopped.is_set(): the loop of a thread is entered.
            return int(called in ("isinstance", host.ASKS_FLAG) or called in torch_model.ASKS_FOR_MODE)


def _asks_for_what_nobody_puts(m: Machine, key: Symbol) -> bool:
    """``hasattr(param, "_linked")`` of a tensor, in a module that puts nothing of that name on anything."""
    match key:
        case symbols.Call(symbols.Name("hasattr"), (symbols.Memory(), symbols.Const(_, str() as name))):
            return not members.is_of_tensor(name) and name not in at_work.stored(m)
        case _:
            return False


def _asks_for_other_accelerator(key: Symbol) -> bool:
    """``torch.xpu.is_available()``, ``hasattr(torch, "npu")``"""
    match key:
        case symbols.Call(symbols.Name("hasattr"), (symbols.Name("torch"), symbols.Const(_, name))):
            return name in torch_model.PUT_BY_OTHERS
        case symbols.Call(symbols.Name(path), ()):
            return path in torch_model.USUALLY_FALSE
        case _:
            return False


def _are_constants(m: Machine, value: Value) -> bool:
    listed = elements.listed(m, value)
    return bool(listed) and all(isinstance(each, ConstV) for each in listed or ())


def negate(m: Machine, e: ir.Unary) -> Value:
    frame = m.frame
    frame.denied = not frame.denied
    try:
        value = _as_told(m, names.settle(m, asked(m, e.operand, None)), e.span)
    finally:
        frame.denied = not frame.denied
    known = answers.constant(m, value)
    if known is not None:
        return ConstV(not known)
    if isinstance(value, SymV):
        return SymV(symbols.negation(value.symbol))
    if isinstance(value, QueryV):
        return replace(value, negated=not value.negated)
    return ConstV(not truth(m, value, e.operand))


def comparison(m: Machine, op: str, left: Value, right: Value) -> Value:
    """An open comparison; ``a != b`` is keyed as the negation of ``a == b``."""
    base = known_comparisons.NEGATED.get(op, op)
    if base == "==" and right == ConstV(None):
        base = "is"
    key = symbols.Compare(base, symbol_of(left), symbol_of(right))
    turned = symbols.Compare(base, key.right, key.left)
    if base in ("==", "is") and turned in m.comparisons:
        # if x.device.id == device: return x, and later: if device != x.device.id
        key = turned
    if key not in m.comparisons:
        m.comparisons[key] = Comparison(base, left, right)
    return SymV(key if op not in known_comparisons.NEGATED else symbols.negation(key))


def against_constant(m: Machine, made: Value, left: Value, right: Value) -> None:
    """Notes an open comparison with a literal or a member of an enum: two of them do not hold at once.

    Nor do ``0 == n - 1`` and ``1 == n - 1``, in two passes of ``last = i == n - 1``.
    """
    if _is_constant(left):
        left, right = right, left
    # The shape of a tensor is asked for by its memory: x.dim() may be 2, and x.reshape(-1).dim() 1.
    if (
        isinstance(made, SymV)
        and isinstance(left, SymV)
        and not symbols.has(left.symbol, symbols.Memory)
        and _is_constant(right)
    ):
        key, _ = symbols.question(made.symbol)
        m.compared[key] = (left.symbol, symbol_of(right))


_ENUM = re.compile(r"[A-Z]\w*")
_MEMBER = re.compile(r"[A-Z][A-Z0-9_]*")


def _is_constant(value: Value) -> bool:
    match value:
        case ConstV(str() | int()):
            return True
        case SymV(symbols.Attr(symbols.Name(owner), name)):
            return _ENUM.fullmatch(owner) is not None and _MEMBER.fullmatch(name) is not None
        case ApiV(path):
            owner, _, name = path.partition(".")
            return _ENUM.fullmatch(owner) is not None and _MEMBER.fullmatch(name) is not None
        case _:
            return False


def text_of(e: ir.Expr) -> str:
    """A short readable form of a condition, for the path of a trace."""
    match e:
        case ir.Name():
            return e.id
        case ir.Attr():
            return f"{text_of(e.value)}.{e.name}"
        case ir.Call():
            return f"{text_of(e.func)}(...)" if e.args else f"{text_of(e.func)}()"
        case ir.Const():
            return repr(e.value)
        case ir.Compare():
            return f"{text_of(e.left)} {e.op} {text_of(e.right)}"
        case ir.Index():
            return f"{text_of(e.value)}[{text_of(e.index)}]"
        case ir.Unary():
            return f"{e.op} {text_of(e.operand)}"
        case _:
            return "condition"
