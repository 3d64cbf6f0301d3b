"""Loops: how many passes are run, and what was left out is not taken to have done nothing."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import made_anew
from streamlint.interp.library import escape, feeding, tensors
from streamlint.interp.python import (
    alike,
    binding,
    conditions,
    containers,
    expr,
    filled_dicts,
    joined_lists,
    later_passes,
    objects,
    passes_left,
    walks,
    while_loops,
    wrapped,
)
from streamlint.interp.state import arrangement, counted, elements, emptied, lengths, lifetime, loop_steps
from streamlint.interp.state.ends import Blocked, Jumped, PathEnds, Returned
from streamlint.interp.state.frames import Consumer
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.values import NONE, ConstV, GeneratorV, HeapV, Value, symbol_of
from streamlint.trace import MAIN_LANE, Doubt, KeepAlive, Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Self

    from streamlint.interp.python.wrapped import Walked
    from streamlint.interp.state.arrangement import Arrangement
    from streamlint.interp.state.frames import Frame
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span
    from streamlint.trace import Op, StreamId

INDEXED_TURNS = 3
"""Passes when the loop computes slots (``i % 2``): two-slot rings collide on the third."""
SURE_INNER_TURNS = 3
"""As many are run in any case of a loop inside another."""
_OF_BUDGET = frozenset({Doubt.BUDGET})


def run_for(m: Machine, s: ir.For) -> None:
    source = objects.iterated(m, expr.evaluate(m, s.iter), s.iter.span)
    walked = wrapped.walked(m, source, s.iter.span)
    if isinstance(walked.inner, GeneratorV):
        _for_generator(m, s, walked.inner, walked)
        return
    m.stores.walking.append(m.steps)
    filling = m.filling
    try:
        with loop_steps.loop(m), lifetime.holding(m, source):
            if elements.listed(m, source) is not None:
                if not _walk(m, s, walked, source):
                    return
            else:
                m.walked.append(NONE)
                m.filling = alike.now(m) if filling is None else filling
                with _Fed(m, s, source) as fed:
                    fed.goes_on = _walk(m, s, walked, source, fed)
                if not fed.goes_on:
                    return
    finally:
        m.stores.walking.pop()
        if filling is None:
            filled_dicts.filled(m)
        m.filling = filling
    m.python.run_block(m, s.orelse)


def _walk(m: Machine, s: ir.For, walked: Walked, source: Value, fed: _Fed | None = None) -> bool:
    """Makes the passes; false if the loop was left by ``break``."""
    many = counted.length(m, source)
    for turn, item in enumerate(_turns(m, s, walked, source)):
        m.ahead = later_passes.MANY if many is None else max(many - turn - 1, 0)
        if fed is not None:
            m.walked[-1] = item
        binding.walk(m, s.target, item)
        try:
            if not _pass(m, s.body):
                return False
        except Blocked:
            if fed is None:
                feeding.note(m, s, source, turn)
            raise
        if fed is not None and fed.is_enough():
            break
    return True


def make_pass(m: Machine, s: ir.For | ir.While, source: Value, turn: int) -> bool:
    """One more pass of a loop that waits for others, by its number; false if the loop was left."""
    try:
        with loop_steps.loop(m):
            if (items := elements.listed(m, source)) is not None and turn >= len(items):
                return False
            m.walked.append(NONE)
            if isinstance(s, ir.For):
                step = objects.following(m, source)
                at = s.iter.span
                item = m.python.call(m, step, [], {}, at) if step else containers.nth(m, source, turn, at)
                if objects.is_end(m, source, item):
                    return False
                m.walked[-1] = item
                binding.walk(m, s.target, item)
            elif not conditions.chooses(m, s, want=True):
                return False
            return _pass(m, s.body)
    except _LoopLeft:
        # It is the loop of a generator, and who walks that has left.
        return False


def _turns(m: Machine, s: ir.For, walked: Walked, source: Value) -> Iterator[Value]:
    """What the loop variable is bound to, pass by pass."""
    items = elements.listed(m, source)
    step = objects.following(m, walked.inner)
    if items is not None:
        sure = loop_steps.SURE_TURNS if m.loops == 1 or _computes_slots(m, s) else SURE_INNER_TURNS
        passes = _Passes(m)
        for done, item in enumerate(items):
            if not loop_steps.may_go_on(m, done, sure):
                passes.cut(s, items[done:])
                return
            yield item
            passes.end()
        return
    begin = len(m.ops)
    by_number = isinstance(source, HeapV) and m.heap[source.id].role in ("range", "enumerate")
    # for i in range(n): ring.push(i): the slots may be computed in what the loop calls.
    turns = INDEXED_TURNS if by_number and m.loops == 1 else turns_for(m, s)
    # for unit, following in zip(units, units[1:] + [None]): the last pass is known
    last = joined_lists.many_at_end(m, source) if step is None else 0
    asked = walks.asked_for(m, source, s.iter.span, at_end=last)[: loop_steps.SURE_TURNS]
    beside = len(asked) - walks.first_of_others(m, source, len(asked))
    # Beside what is known to be there stands what nothing is known of.
    known = min(walks.known_by_number(m, source), loop_steps.SURE_TURNS)
    if (left := counted.left_going_down(m, source)) is not None:
        turns = min(turns, left)
    turns = 0 if walks.is_filled(m, source) else max(turns, len(asked) + max(known, 1))
    done = 0
    planned = max(turns, len(asked))
    try:
        for turn in _passes(m, s, planned, source, last, whole=walks.was_walked(m, source, planned)):
            if lengths.has_ended(m, source, turn - beside):
                last = 0
                break
            lengths.begins(m, source, turn, min(planned, loop_steps.SURE_TURNS - 1) + last)
            done += 1
            if turn < len(asked):
                yield asked[turn]
                continue
            if walks.is_filled(m, source):
                return
            if step is None:
                yield containers.nth(m, source, turn - beside, s.iter.span)
                continue
            given = objects.stepped(m, walked.inner, step, s.iter.span)
            if given is None:
                return
            yield walked.around(given, turn)
        for item in joined_lists.at_end(m, source, done, s.iter.span)[:last]:
            last -= 1
            lengths.begins(m, source, done, done + last)
            done += 1
            yield item
    finally:
        lengths.ends(m, source)
    counted.note(m, source, done)
    passes_left.may_wait(m, begin, done, s.span)
    if step is not None and not walks.is_filled(m, source):
        # for batch in Prefetcher(loader): when it raises StopIteration nothing is under way in it any more.
        m.life.kept.append(walked.inner)


def _passes(
    m: Machine, s: ir.For | ir.While, turns: int, source: Value = NONE, last: int = 0, *, whole: bool = False
) -> Iterator[int]:
    """The numbers of a loop's passes up to ``turns``, and more where one shows that they are too few.

    The ``last`` ones are not among them. ``whole``: an earlier loop has shown that there are no more.

    ``for row in rows: page = pinned(row); upload(page)``: the second pass drops what the first one allocated,
    and only the allocation of a third may get the same memory. ``front, back = back, front`` at the end of
    each pass: the third is the first that meets again what another one used. ``yield batch``, and then
    ``batch = coming``: what the last pass still holds of an earlier one, the next may drop. What is called
    may go around a ring: ``self.at = (self.at + 1) % 2``.
    """
    born, begin, mark = len(m.buffers), len(m.ops), lifetime.mark(m)
    around, m.numbers.around = m.numbers.around, 0
    stood: list[Arrangement] = []
    turn = 0
    while True:
        if turn >= turns - 1 and loop_steps.is_busy(m, begin):
            stood.append(arrangement.of(m, _left_to_the_next(m, s), born))
        goes_on = arrangement.comes_around(stood) or lengths.is_promised(m, source, turn + last)
        may_go_on = turn < loop_steps.SURE_TURNS and not whole
        if turn >= turns and not (may_go_on and (goes_on or _comes_back(m, begin, turn))):
            break
        mark = lifetime.mark(m)
        yield turn
        turn += 1
    if turns and not whole and lifetime.is_held_over(m, born, mark):
        mark = lifetime.mark(m)
        yield turn
        turn += 1
    if turns and not whole and lifetime.may_be_given_again(m, mark, begin):
        yield turn
    m.numbers.around = max(m.numbers.around, around)


_ANEW: Kept[Span, frozenset[str]] = Kept()


def _left_to_the_next(m: Machine, s: ir.For | ir.While) -> Iterator[tuple[str, Value]]:
    """The variables that the next pass finds as this one has left them."""
    anew = m.project.once(_ANEW, s.span, lambda: made_anew.of_loop(s))
    return (one for one in m.frame.env.names.items() if one[0] not in anew)


def _comes_back(m: Machine, begin: int, turn: int) -> bool:
    """Whether the next pass of an outermost loop is the first that comes back to a slot of a ring."""
    return m.loops == 1 and turn <= m.numbers.around and loop_steps.is_busy(m, begin)


def turns_for(m: Machine, s: ir.For | ir.While) -> int:
    return INDEXED_TURNS if _computes_slots(m, s) else loop_steps.UNKNOWN_LENGTH_TURNS


_SLOTS: Kept[Span, bool] = Kept()


def _computes_slots(m: Machine, s: ir.For | ir.While) -> bool:
    """Whether the loop's own text computes with ``%``, ``&`` or ``^``: ``buffers[i % 2]``."""
    return m.project.once(
        _SLOTS,
        s.span,
        lambda: any(
            isinstance(node, (ir.Binary, ir.AugAssign)) and node.op in "%&^" for node in ir.walk(s.body)
        ),
    )


def _pass(m: Machine, body: Sequence[ir.Stmt]) -> bool:
    """One pass; false if the loop was left by ``break``."""
    try:
        m.python.run_block(m, body)
    except Jumped as jump:
        return jump.kind == "continue"
    return True


def _for_generator(m: Machine, s: ir.For, source: GeneratorV, walked: Walked) -> None:
    """The generator's body runs, and the loop body runs at each of its yields."""
    depth, ahead = len(m.calls), m.ahead
    returned: list[Returned] = []
    turns = count()

    def at_yield(frame: Frame, value: Value) -> Value:
        with m.back_in(frame, depth):
            try:
                m.ahead = later_passes.MANY
                binding.walk(m, s.target, walked.around(value, next(turns)))
                if not _pass(m, s.body):
                    raise _LoopLeft
            except Returned as leaving:
                # It leaves the function of the loop, not the generator that runs just now.
                returned.append(leaving)
                raise _LoopLeft from None
        return NONE

    try:
        m.python.run_generator(m, source, Consumer(m.frame, at_yield), s.iter.span)
    except _LoopLeft:
        if returned:
            raise returned[0] from None
        return
    finally:
        m.ahead = ahead
    m.python.run_block(m, s.orelse)


class _LoopLeft(Exception):
    """``break`` or ``return`` out of a loop over a generator."""


class _Fed:
    """A loop of unknown length; that of a thread which feeds queues goes on later: ``library/feeding.py``."""

    def __init__(self, m: Machine, s: ir.For | ir.While, source: Value = NONE) -> None:
        self.m, self.s, self.source = m, s, source
        self.done, self.goes_on = 0, True

    def __enter__(self) -> Self:
        self.before = self.m.fed, self.m.drained
        self.m.fed = self.m.drained = frozenset()
        return self

    def is_enough(self) -> bool:
        """After a pass: whether the thread waits now."""
        self.done += 1
        return feeding.is_waiting(self.m)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.goes_on and (kind is None or issubclass(kind, Blocked)):
            feeding.note(self.m, self.s, self.source, self.done + (kind is not None))
        self.m.fed, self.m.drained = self.before


_ASKING: Kept[Span, bool] = Kept()


def _asks_for_more(m: Machine, s: ir.For | ir.While) -> bool:
    """Whether passes ask if they are the last one: what the loop goes up to is compared in it."""
    return m.project.once(_ASKING, s.span, lambda: _compares_end(s))


def _compares_end(s: ir.For | ir.While) -> bool:
    match s:
        case ir.For(iter=ir.Call(func=ir.Name(id="range"), args=[*_, last])):
            ends = {conditions.text_of(last.value)}
        case ir.For(iter=ir.Call(func=ir.Name(id="enumerate"), args=[first, *_])):
            ends = {f"len({conditions.text_of(first.value)})"}
        case _:
            return False
    return any(
        isinstance(node, ir.Compare) and not ends.isdisjoint(map(conditions.text_of, (node.left, node.right)))
        for node in ir.walk(s.body)
    )


class _Passes:
    """The streams and events that each pass of a loop used: what passes left out might have ordered.

    What ``wait_stream`` uses are its two streams, and not the event that it makes for itself.
    """

    def __init__(self, m: Machine) -> None:
        self.m = m
        self.begin = len(m.ops)
        self.last = self.earlier = frozenset[tuple[str, int]]()
        self.kept_for: set[StreamId] = set()

    def end(self) -> None:
        self.earlier |= self.last
        self.kept_for |= {op.stream for op in self.m.ops[self.begin :] if isinstance(op, KeepAlive)}
        self.last = frozenset(
            (kind, number)
            for op in self.m.ops[self.begin :]
            for kind in self._counted(op)
            if (number := getattr(op, kind, None)) is not None
        )
        self.begin = len(self.m.ops)

    def _counted(self, op: Op) -> tuple[str, ...]:
        """Of a record only that of ``wait_stream``, which is what tells the other stream."""
        event = getattr(op, "event", None)
        if event is not None and self.m.events[event].implied:
            return ("stream",)
        return () if isinstance(op, Record) else ("stream", "event")

    def cut(self, s: ir.For | ir.While, left: Sequence[Value] = ()) -> None:
        """Passes are left out: if each used another stream, they would have ordered those not seen yet.

        So they would if each waits for another event, ``for work in self.works: work.wait()``. The last one
        leaves nothing under way for the next, ``if k + 1 < n: self.fetch(k + 1)``. And what each kept for a
        stream they would have kept, too: ``for t in batch.tensors(): t.record_stream(current)``.
        """
        m = self.m
        m.project.budgets.left_out.add("passes of a loop")
        if any(not isinstance(item, ConstV) for item in left):
            # for job in self.running: if job.id == wanted: ...: the one that is meant may be left out.
            m.left_elements = True
        if not self.last <= self.earlier or _asks_for_more(m, s):
            escape.barrier(m, escape.all_streams(m), s.span, "passes left out", Doubt.BUDGET)
        for view in tensors.buffers_in(m, left, unknown=False) if self.kept_for else ():
            for stream in sorted(self.kept_for):
                m.emit(KeepAlive(m.site(s.span), m.lane, _OF_BUDGET, buffer=view.id, stream=stream))


def run_while(m: Machine, s: ir.While) -> None:
    is_endless = isinstance(s.test, ir.Const)
    m.endless += is_endless
    try:
        with loop_steps.loop(m):
            m.walked.append(NONE)
            with _Fed(m, s) as fed:
                fed.goes_on = _while(m, s, fed)
        if not fed.goes_on:
            return
    finally:
        m.endless -= is_endless
    m.python.run_block(m, s.orelse)


def _while(m: Machine, s: ir.While, fed: _Fed) -> bool:
    """Runs the passes; false if the loop was left by ``break``."""
    endless = isinstance(s.test, ir.Const)
    # while self.rows > self.window: self.parts.pop(0): what other code has put there may all be there still.
    is_aside = not (m.frame.touches or m.frame.leads)
    asks_threads = m.lanes > 1 and not endless
    if asks_threads and while_loops.is_idle(s):
        escape.barrier(m, escape.all_streams(m), s.span, "the loop", Doubt.THREADS)
    begin = len(m.ops)
    if m.lane != MAIN_LANE and not endless:
        # while state["turn"] != me: pass, in a thread: another one may say when to go on.
        m.asking.append(begin)
    turns = _passes(m, s, max(turns_for(m, s), _known_in(m, s.test)) if s.body else 1)
    passes, done = _Passes(m), 0
    while True:
        known = _known_test(m, s.test)
        if known is False:
            return True
        if known is None or endless:
            if next(turns, None) is None:
                if endless:
                    lifetime.stays(m)
                break
            goes_on = (
                _known_in(m, s.test)
                or (done == 0 and not while_loops.polls(s.test) and not is_aside)
                or while_loops.empties(m, s.test)
            )
            # while not all(r.done for r in requests): what is entered once is entered again.
            first = True if done or is_aside else None
            if not conditions.chooses(m, s, want=True if goes_on else None, first=first):
                return True
        elif not loop_steps.may_go_on(m, done, loop_steps.SURE_TURNS):
            passes.cut(s)
            return True
        m.ahead = later_passes.MANY if known is None or endless else 0
        if not _pass(m, s.body):
            return False
        passes.end()
        done += 1
        if fed.is_enough():
            return True
    # The loop is left with its test false: ``while not e.query(): pass`` ends synchronized.
    while not endless and conditions.chooses(m, s, want=False):
        if while_loops.grows(s):
            return True
        if asks_threads and m.lane == MAIN_LANE and len(m.ops) == begin:
            # while key not in self.pages: log("not yet"); continue. Some other thread says when to go on.
            if not while_loops.is_idle(s):
                escape.barrier(m, escape.all_streams(m), s.span, "the loop", Doubt.THREADS)
            return True
        if not while_loops.takes(s.test):
            raise PathEnds
        if not loop_steps.may_go_on(m, done, loop_steps.SURE_TURNS):
            m.project.budgets.left_out.add("passes of a loop")
            if while_loops.may_end_in_wait(m, s.test):
                escape.barrier(m, escape.all_streams(m), s.span, "passes left out", Doubt.BUDGET)
            return True
        if not _pass(m, s.body):
            return False
        done += 1
    if while_loops.empties(m, s.test) and isinstance(s.test, (ir.Name, ir.Attr)):
        emptied.ends(m, symbol_of(expr.evaluate(m, s.test)))
    return True


def _known_in(m: Machine, test: ir.Expr) -> int:
    """How many elements there are to take: ``while streams: wait(streams.pop())``."""
    known = walks.known_by_number(m, expr.evaluate(m, test)) if isinstance(test, ir.Name) else 0
    return min(known, loop_steps.SURE_TURNS)


def _known_test(m: Machine, test: ir.Expr) -> bool | None:
    """What a comparison of numbers gives: ``while k < 10``; None if it is not known, or does more."""
    if not isinstance(test, ir.Compare) or any(isinstance(node, ir.Call) for node in ir.walk(test)):
        return None
    value = expr.evaluate(m, test)
    return bool(value.value) if isinstance(value, ConstV) else None
