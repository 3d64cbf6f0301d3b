"""Expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint import ir
from streamlint.frozen import replace
from streamlint.interp.facts import classes, guesses, known_values
from streamlint.interp.facts.kinds import Kind
from streamlint.interp.library import forms, sizes, tensor_methods, tensors
from streamlint.interp.python import (
    alike,
    binding,
    calls,
    comparisons,
    comprehensions,
    conditions,
    containers,
    executors,
    going_on,
    inner_functions,
    joined_lists,
    objects,
    text,
)
from streamlint.interp.state import (
    bounded,
    elements,
    names,
    numbers,
    results,
    rings,
    spelling,
    strides,
    symbols,
)
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    ConstV,
    Flavor,
    GeneratorV,
    HeapV,
    Shape,
    SliceV,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.trace import UNBOUNDED, Evidence, Interval, Space, Symbol

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Plain
    from streamlint.source import Span


def evaluate(m: Machine, e: ir.Expr, *, called: bool = False) -> Value:
    """The value of an expression; calls and reads inside it are carried out in order.

    ``called``: it is what a call calls.
    """
    m.tick()
    match e:
        case ir.Name():
            return spelling.noted(m, binding.load(m, e.id), e)
        case ir.Const():
            return NONE if e.value is ... else bounded.constant(e.value)
        case ir.Attr():
            found = objects.attribute(m, evaluate(m, e.value), e.name, e.span)
            return spelling.noted(m, found if called else tensor_methods.part_of(m, found), e)
        case ir.Call():
            return calls.evaluate_call(m, e)
        case ir.Index():
            value = evaluate(m, e.value)
            return spelling.noted(m, containers.index(m, value, evaluate(m, e.index), e.span), e)
        case ir.Slice():
            return SliceV(*(evaluate(m, part) if part is not None else None for part in (e.lo, e.hi, e.step)))
        case ir.Seq():
            given = [(evaluate(m, item), isinstance(item, ir.Star)) for item in e.items]
            return joined_lists.displayed(m, e.kind, given, e.span)
        case ir.DictDisplay():
            return dictionary(m, e)
        case ir.Star():
            return evaluate(m, e.value)
        case ir.Unary():
            return unary(m, e)
        case ir.Binary():
            return binary(m, e.op, evaluate(m, e.left), evaluate(m, e.right), e)
        case ir.Compare():
            return comparisons.compare(m, e.op, evaluate(m, e.left), evaluate(m, e.right), e)
        case ir.Boolean():
            return boolean(m, e)
        case ir.Choice():
            return _chosen(m, e)
        case ir.Comprehension():
            return comprehensions.evaluated(m, e)
        case ir.Lambda():
            return inner_functions.defined(m, e.function)
        case ir.Bind():
            value = evaluate(m, e.value)
            binding.store(m, e.name, value)
            return value
        case ir.Await():
            return executors.awaited(m, names.settle(m, evaluate(m, e.value)), e.span)
        case ir.Yield():
            return yielded(m, e)
        case ir.Opaque():
            operands = [evaluate(m, operand) for operand in e.operands]
            return text.formatted(m, e, operands) if e.why == "f-string" else m.fresh(e.why, e.span)
        case _:
            assert_never(e)


def dictionary(m: Machine, e: ir.DictDisplay) -> Value:
    made = m.new_object(Shape.DICT)
    target = m.heap[made.id]
    for key, value in e.items:
        if key is None:
            source = evaluate(m, value)
            if isinstance(source, HeapV):
                target.entries.update(m.heap[source.id].entries)
                target.keys.update(m.heap[source.id].keys)
            target.open = True
            continue
        key_value = evaluate(m, key)
        containers.put(m, target, key_value, evaluate(m, value))
    return made


def unary(m: Machine, e: ir.Unary) -> Value:
    if e.op == "not":
        return conditions.negate(m, e)
    value = evaluate(m, e.operand)
    match value:
        case ConstV(int() | float() as number) if e.op == "-":
            return ConstV(-number)
        case ConstV() if e.op == "+":
            return value
        case BufferV():
            made = tensors.operate(m, e.span, f"operator {e.op}", [value])
            return sizes.as_mask(m, made) if value.id in m.forms.masks else made
        case _:
            return SymV(symbols.Unary(e.op, symbol_of(value)))


def binary(m: Machine, op: str, left: Value, right: Value, e: ir.Binary | ir.AugAssign) -> Value:
    left, right = (_as_host_array(m, names.settle(m, side)) for side in (left, right))
    said = _of_class(m, op, left, right, e.span)
    if said is not None:
        return said
    around = strides.computed(m, op, left, right) or rings.computed(m, op, left, right)
    if around is not None:
        return around
    of_host = any(isinstance(side, BufferV) and tensors.is_of_host(m, side) for side in (left, right))
    if op == "@" and not of_host and all(isinstance(side, (SymV, BufferV)) for side in (left, right)):
        # Of a product of matrices both sides are tensors; beside one of the host stands none of a device.
        left, right = _as_tensor(m, left), _as_tensor(m, right)
    match left, right:
        case ConstV(a), ConstV(b) if op in numbers.ARITHMETIC:
            m.numbers.goes_around(op, b)
            return _constant(op, a, b)
        case ConstV(str() | bytes()), TupleV(items) if op == "%" and not tensors.buffers_in(m, items):
            return text.filled(left, items) or SymV(symbols.Binary("%", symbol_of(left), symbol_of(right)))
        case (BufferV(flavor=Flavor.POINTER) as pointer, _) if op in "+-":
            return moved(pointer, right, op)
        case (_, BufferV(flavor=Flavor.POINTER) as pointer) if op == "+":
            return moved(pointer, left, "+")
        case (BufferV(flavor=Flavor.POINTER), _) | (_, BufferV(flavor=Flavor.POINTER)):
            return SymV(symbols.Binary(op, symbol_of(left), symbol_of(right)))
        case (TupleV() | HeapV(), _) | (_, TupleV() | HeapV()) if (
            made := _of_sequences(m, op, left, right, e.span)
        ) is not None:
            return made
        case (BufferV(), _) | (_, BufferV()):
            made = tensors.operate(m, e.span, f"operator {op}", [left, right])
            forms.made(m, made, op, [left, right])
            both = all(isinstance(side, BufferV) and side.id in m.forms.masks for side in (left, right))
            return sizes.as_mask(m, made) if both and op in "&|^" else made
        case _:
            return _of_unknown(m, op, left, right, e.span)


def _of_sequences(m: Machine, op: str, left: Value, right: Value, span: Span) -> Value | None:
    """Tuples and lists that are added to others, or repeated; None for other operands."""
    match op, left, right:
        case "+", TupleV(a), TupleV(b):
            return m.new_tuple(a + b)
        case "+", TupleV(a), BufferV(flavor=Flavor.OPAQUE) | SymV():
            # (first,) + rest[1:]: what is added to a tuple is one, of a length that is not known
            return joined_lists.with_rest(m, a, right)
        case "+", BufferV(flavor=Flavor.OPAQUE) | SymV(), TupleV(b):
            return joined_lists.with_rest(m, b, left)
        case ("+", TupleV(), _) | ("+", _, TupleV()):
            # (x,) + rest: a longer tuple, which computes nothing.
            return m.fresh("tuple", span, (left, right))
        case "+", HeapV() as a, HeapV() as b if m.heap[a.id].shape is Shape.LIST:
            return joined_lists.joined(m, a, b, span)
        case "+", SymV() as a, HeapV() as b:
            return joined_lists.with_end(m, a, b)
        case "*", TupleV(items), ConstV(int() as times) if times <= _MOST_TIMES:
            return m.new_tuple(items * times)
        case "*", HeapV() as a, ConstV(int() as times) if (
            m.heap[a.id].shape is Shape.LIST and times <= _MOST_TIMES
        ):
            return m.new_list(m.heap[a.id].items * times)
        case "*", HeapV() as a, SymV() if m.heap[a.id].shape is Shape.LIST and m.heap[a.id].items:
            # [buffer] * n: all elements are one
            made = m.new_list(())
            m.heap[made.id].open, m.heap[made.id].sample = True, m.heap[a.id].items[0]
            m.heap[made.id].born = alike.now(m)
            return made
        case _:
            return None


_MOST_TIMES = 64
"""How often something is repeated of which all elements are known."""
_METHODS = {"+": "add", "-": "sub", "*": "mul", "@": "matmul", "/": "truediv", "//": "floordiv", "%": "mod"}


def _of_class(m: Machine, op: str, left: Value, right: Value, span: Span) -> Value | None:
    """What the class of an object says of an operator: ``operator @ vector``, whatever ``vector`` is."""
    if op not in _METHODS:
        return None
    for mine, other, prefix in ((left, right, ""), (right, left, "r")):
        if isinstance(mine, HeapV) and m.heap[mine.id].shape is Shape.INSTANCE:
            method = classes.method(m, mine, f"__{prefix}{_METHODS[op]}__")
            if method is not None:
                return calls.call(m, method, [other], {}, span)
    return None


def _of_unknown(m: Machine, op: str, left: Value, right: Value, span: Span) -> Value:
    """What stands for a result of which nothing is known."""
    if guesses.is_captured(m) and guesses.evidence(m, op, left, right):
        # A graph takes it up now: it cannot wait for what later code shows.
        views = [_as_tensor(m, side) for side in (left, right)]
        return tensors.operate(m, span, f"operator {op}", views)
    result = SymV(symbols.Binary(op, symbol_of(left), symbol_of(right)))
    guesses.note(m, op, left, right, result, span)
    return result


def _as_tensor(m: Machine, operand: Value) -> Value:
    return tensors.as_buffer(m, operand, kind=Evidence.INFERRED) if isinstance(operand, SymV) else operand


def _as_host_array(m: Machine, operand: Value) -> Value:
    """``batch.lens`` where ``class Batch`` says ``lens: np.ndarray``: the host computes with it, at once."""
    if not isinstance(operand, SymV):
        return operand
    said = known_values.of_value(m, operand.symbol)
    is_array = said.kind is Kind.MEMORY and said.space is Space.PAGEABLE
    return tensors.as_buffer(m, operand, kind=said.by) if is_array else operand


def moved(pointer: BufferV, by: Value, op: str) -> BufferV:
    """``pointer + offset``: everything from there on, until a call says how many bytes."""
    match pointer.region, by:
        case (), ConstV(int() as offset) if op == "+" and offset >= 0:
            return replace(pointer, region=(Interval(offset, UNBOUNDED),))
        case (Interval(lo, hi),), ConstV(int() as offset) if op == "+" and offset >= 0:
            return replace(pointer, region=(Interval(lo + offset, hi),))
        case _:
            further = Symbol(f"{op}{symbols.text_of(symbol_of(by))}")
            return replace(pointer, region=(*pointer.region, further))


def _constant(op: str, a: Plain, b: Plain) -> Value:
    unknown = SymV(symbols.Binary(op, symbols.constant(a), symbols.constant(b)))
    if bounded.is_too_much(op, a, b):
        return unknown
    if op in ("*", "%") and isinstance(a, (str, bytes)):
        folded = text.folded(lambda: a % b, a, b) if op == "%" else None
        return folded or unknown
    try:
        result = numbers.ARITHMETIC[op](a, b)
    except (TypeError, ZeroDivisionError, ValueError, OverflowError):
        return unknown
    return (
        bounded.constant(result) if isinstance(result, (int, float, complex, str, bytes, bool)) else unknown
    )


def boolean(m: Machine, e: ir.Boolean, first: bool | None = None) -> Value:
    """``a or b`` gives an operand; unknown operands are decided like tests, with ``first`` as in these."""
    value: Value = NONE
    for operand in e.operands[:-1]:
        value = answer(m, operand, first)
        true = conditions.truth(m, value, operand, first=first)
        if true == (e.op == "or"):
            return value
    return answer(m, e.operands[-1], first)


def _chosen(m: Machine, e: ir.Choice) -> Value:
    chooses = conditions.chooses(m, e, first=going_on.first_choice(m.frame, e))
    return evaluate(m, e.body if chooses else e.orelse)


def answer(m: Machine, e: ir.Expr, first: bool | None) -> Value:
    """What a function gives of which one answer is explored before the other."""
    return boolean(m, e, first) if isinstance(e, ir.Boolean) else conditions.asked(m, e, first)


def yielded(m: Machine, e: ir.Yield) -> Value:
    value = results.put_aside(m, evaluate(m, e.value)) if e.value is not None else NONE
    frame = m.frame
    if frame.on_yield is None:
        return m.fresh("sent", e.span)
    if e.delegate and isinstance(value, GeneratorV):
        return m.python.run_generator(m, value, frame.on_yield, e.span)
    if e.delegate:
        for item in elements.listed(m, value) or [containers.element(m, value, symbols.EACH, e.span)]:
            frame.on_yield(item)
        return NONE
    return frame.on_yield(value)
