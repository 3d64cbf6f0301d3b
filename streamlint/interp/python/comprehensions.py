"""Comprehensions: element by element, or one that stands for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import replace
from streamlint.interp.facts import answers
from streamlint.interp.library import weakly
from streamlint.interp.python import (
    alike,
    binding,
    conditions,
    containers,
    objects,
    parting,
    walks,
)
from streamlint.interp.state import counters, elements, lengths, lifetime, loop_steps, results, symbols
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    DeviceV,
    Env,
    GeneratorV,
    HeapV,
    QueryV,
    Shape,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.trace import Copy, Launch, launches_graph

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeGuard

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

SURE_ELEMENTS = 8
"""Comprehensions over a known length are evaluated element by element up to this many, whatever they cost."""


def evaluated(m: Machine, e: ir.Comprehension) -> Value:
    """Known lengths element by element; unknown ones by one sample for all, if tests leave it."""
    scope = Env({}, m.frame.env.module, m.frame.env, m.frame.env.number)
    outer = m.frame.env
    m.frame.env = scope
    collected: list[tuple[Value | None, Value]] = []
    born, begin = alike.now(m), len(m.ops)
    try:
        with loop_steps.loop(m):
            first = _source(m, e, 0)
            work_from, taken = len(m.ops), m.taken
            opened = _clause(m, e, 0, collected, first)
            each = _walked(m, e, scope, first)
            more = _are_needed(m, e, first, work_from, taken)
            further = _again(m, e, first, range(max(len(collected), 1), more + 1))
    finally:
        m.frame.env = outer
    opened = opened and bool(collected or not e.generators[0].tests)
    if e.kind == "dict":
        made = m.new_object(Shape.DICT)
        for key, value in collected:
            if key is not None and not opened:
                containers.put(m, m.heap[made.id], key, value)
    else:
        made = m.new_list(
            () if opened else (value for _, value in collected),
            shape=Shape.SET if e.kind == "set" else Shape.LIST,
            kind="generator" if e.kind == "generator" else "",
        )
    if opened:
        m.heap[made.id].open = True
        m.heap[made.id].key_sample, m.heap[made.id].sample = collected[0] if collected else (None, None)
        work = (op for op in m.ops[begin:] if isinstance(op, (Launch, Copy)))
        works = any(not m.streams[op.stream].is_default for op in work)
        m.heap[made.id].born = replace(born, each=each, works=works)
        # [pool.submit(run, i) for i in range(n)]: the first one has worked for all, on its own device.
        m.assumed_device |= works and m.counted_device
        if len(e.generators) == 1 and not e.generators[0].tests and e.kind == "list":
            lengths.one_for_each(m, made, first)
        if len(collected) > 1 or _only_chooses(e, collected):
            for turn, (_, value) in enumerate(collected):
                m.heap[made.id].extra[symbols.constant(turn)] = value
        for turn, (key, value) in enumerate(further, len(collected)):
            m.heap[made.id].extra[symbols.constant(turn) if key is None else symbol_of(key)] = value
    return made


def _walked(
    m: Machine, e: ir.Comprehension, scope: Env, source: Value
) -> tuple[symbols.Item | symbols.Memory, ...]:
    """What each element is made of, where the first one is made of the first: no test leaves any out.

    Of those that a module owns, a test is taken to leave none of the first out:
    ``[p for p in net.parameters() if p.requires_grad]``.
    """
    begins = _begins_with_known(m, source)
    if len(e.generators) > 1 or (e.generators[0].tests and not begins):
        return ()
    walked = [one for value in scope.names.values() for one in _made_of(value)]
    return tuple(one for one in walked if _stands_for_each(one) or (begins and _is_first(one)))


def _made_of(value: Value) -> Iterable[symbols.Symbol]:
    """What tells an element from others; ``f"cuda:{i}"`` is told by ``i``."""
    match value:
        case SymV(symbol=symbols.Formatted() as text):
            return counters.those_in(text)
        case DeviceV(symbol=symbol) if symbol is not None:
            return counters.those_in(symbol)
        case SymV() | BufferV():
            return (symbol_of(value),)
        case _:
            return ()


def _begins_with_known(m: Machine, source: Value) -> bool:
    """Whether some elements are told apart, and there are more: ``net.named_parameters()``."""
    held = m.heap[source.id] if isinstance(source, HeapV) else None
    return held is not None and held.open and not held.role and len(held.items) > 1


def _is_first(one: symbols.Symbol) -> TypeGuard[symbols.Item]:
    return isinstance(one, symbols.Item) and symbols.number(one.at) == 0


def _stands_for_each(one: symbols.Symbol) -> TypeGuard[symbols.Item | symbols.Memory]:
    match one:
        case symbols.Item(_, at):
            return at is symbols.EACH
        case symbols.Memory(_, [*_, row]):
            return row == elements.ANY_ROW
        case _:
            return False


def _source(m: Machine, e: ir.Comprehension, depth: int) -> Value:
    walked = e.generators[depth].iter
    return objects.iterated(m, m.python.evaluate(m, walked), walked.span)


def _clause(
    m: Machine,
    e: ir.Comprehension,
    depth: int,
    out: list[tuple[Value | None, Value]],
    source: Value | None = None,
) -> bool:
    """Runs clause ``depth``; true if the number of elements is not known."""
    if depth == len(e.generators):
        made_before, objects_before = len(m.buffers), len(m.heap)
        key = m.python.evaluate(m, e.key) if e.key is not None else None
        out.append((key, results.put_aside(m, m.python.evaluate(m, e.element))))
        parts = tuple(part for pair in out for part in pair if part is not None)
        lifetime.after_turn(m, made_before, parts, e.span)
        if m.life.finalizers:
            with lifetime.holding(m, TupleV(parts)):
                weakly.after_statement(m, e.span, objects_before)
        return False
    clause = e.generators[depth]
    source = _source(m, e, depth) if source is None else source
    if isinstance(source, GeneratorV):
        _clause_over_generator(m, e, depth, out, source)
        return True
    listed = elements.listed(m, source)
    opened = listed is None
    # What consumes a generator does so between its elements.
    again = opened or (e.kind == "generator" and depth == 0)
    walked = len(m.walked)
    if again:
        m.walked.append(NONE)
    items = _some_of(m, source, clause.iter.span) if listed is None else listed
    for done, item in enumerate(items):
        if not loop_steps.may_go_on(m, done, SURE_ELEMENTS):
            opened = True
            break
        if again:
            m.walked[walked:] = [item]
        binding.assign(m, clause.target, item)
        taken, is_open, asked = _tested(m, clause, again=again)
        opened = opened or is_open
        if taken and opened and done == 0 and len(items) == 1 and parting.has_gone_elsewhere(m, asked):
            items.append(containers.nth(m, source, 1, clause.iter.span))
        elif taken:
            parting.takes(m, asked)
            opened = _clause(m, e, depth + 1, out) or opened
    del m.walked[walked:]
    return opened


def _some_of(m: Machine, source: Value, span: Span) -> list[Value]:
    """What a clause comes by where the number of elements is not known."""
    step = objects.following(m, source)
    if step is not None:
        item = objects.stepped(m, source, step, span)
        return [] if item is None else [item]
    items = walks.asked_for(m, source, span)
    if not walks.is_filled(m, source):
        one = containers.any_of(m, source, span)
        items += [one] if one not in items else []
    # [s.synchronize() for s in streams] comes by all that code has used by their numbers.
    numbers = range(1, min(walks.known_by_number(m, source), SURE_ELEMENTS))
    used = [containers.nth(m, source, number, span) for number in numbers]
    return items + [item for item in used if item not in items]


def _tested(m: Machine, clause: ir.Generator, *, again: bool) -> tuple[bool, bool, list[Value]]:
    """Whether an element is taken, whether it might have been left out, and what was asked of it."""
    asked: list[Value] = []
    is_open = False
    for condition in clause.tests:
        value = m.python.evaluate(m, condition)
        asked.append(value)
        if isinstance(value, QueryV):
            # pending = [event for event in pending if not event.query()]: those left out are complete; of
            # [job for job in jobs if job.done.query()], however many there are, each that is in it is.
            answer = conditions.truth(m, value, condition, want=True if again else None)
            known = None if again else answer
        else:
            known = answers.constant(m, value)
        if known is False:
            return False, is_open, asked
        is_open = is_open or known is None
    return True, is_open, asked


def _are_needed(m: Machine, e: ir.Comprehension, source: Value, begin: int, taken: int) -> int:
    """How many elements are made beside the first one of those whose number is not known.

    ``[(name, free.pop()) for name in names]`` takes another page in each pass.
    """
    if isinstance(source, GeneratorV) or elements.listed(m, source) is not None:
        return 0
    if _meets_next(m, e, begin):
        return 2
    return 1 if m.taken > taken else 0


def _meets_next(m: Machine, e: ir.Comprehension, begin: int) -> bool:
    """Whether an outermost comprehension runs code of the program that does work aside, or starts a graph."""
    if not m.loops == len(e.generators) == 1 or e.kind == "generator":
        return False
    work = [op for op in m.ops[begin:] if isinstance(op, (Launch, Copy)) and len(op.at.calls) > len(m.calls)]
    return bool(work) and (
        loop_steps.is_busy(m, begin)
        or any(not m.streams[op.stream].is_default for op in work)
        or any(launches_graph(op) for op in work)
    )


def _again(m: Machine, e: ir.Comprehension, source: Value, turns: range) -> list[tuple[Value | None, Value]]:
    """Further elements, for what one does to the next: ``[runner.step(batch) for batch in batches]``.

    Who gets the list uses them too: ``[self.next_batch() for _ in range(n)]`` of a ring with two slots.
    """
    if not turns:
        return []
    m.oracle.choose(
        m.fresh("several", e.span).symbol, "there are several elements", options=1, relevant=False
    )
    clause = e.generators[0]
    step = objects.following(m, source)
    if step is None:
        containers.nth(m, source, 0, clause.iter.span)  # what stood for any element is the first of several
    made: list[tuple[Value | None, Value]] = []
    for turn in turns:
        if lengths.has_ended(m, source, turn):
            break
        at = clause.iter.span
        item = objects.stepped(m, source, step, at) if step else containers.nth(m, source, turn, at)
        if item is None:
            break
        binding.assign(m, clause.target, item)
        for condition in clause.tests:
            m.python.evaluate(m, condition)
        _clause(m, e, 1, made)
    m.life.kept += [value for _, value in made]
    return made


def _clause_over_generator(
    m: Machine, e: ir.Comprehension, depth: int, out: list[tuple[Value | None, Value]], source: GeneratorV
) -> None:
    """The generator's body runs, and the element is made at each of its yields."""
    frame, calls = m.frame, len(m.calls)
    clause = e.generators[depth]

    def at_yield(value: Value) -> Value:
        with m.back_in(frame, calls):
            binding.assign(m, clause.target, value)
            _clause(m, e, depth + 1, out)
        return NONE

    m.python.run_generator(m, source, at_yield, clause.iter.span)


def _only_chooses(e: ir.Comprehension, collected: Sequence[tuple[Value | None, Value]]) -> bool:
    """``[s for s in self.slots if not s.busy]``: the first one is the object that the test was asked of."""
    return (
        isinstance(e.element, ir.Name)
        and any(isinstance(one.target, ir.Name) and one.target.id == e.element.id for one in e.generators)
        and any(isinstance(value, HeapV) for _, value in collected)
    )
