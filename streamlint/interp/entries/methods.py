"""How outside code may call the methods of a class.

Each is called until the numbers in the object repeat, plus once more (a two-slot ring collides on the
third call). Pairs of methods that share an attribute are called one after the other, and methods that do
nothing on a fresh object after those that prepare it.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import replace
from streamlint.interp.entries import given_back, handed, ordering, preparing, repetition, taken
from streamlint.interp.entries.pairs import (
    MOST_PAIRED,
    MOST_PAIRS,
    Methods,
    called_of,
    methods_of,
    pairs,
    steps_of,
)
from streamlint.interp.entries.replaced import MOST_REPLACING, sequences
from streamlint.interp.entries.runs import PAIR_PATHS, PATHS, PREPARING_PATHS, Entry
from streamlint.interp.facts import call_keys, classes, decorators, joins, several, touching
from streamlint.interp.facts.call_needs import MOST_EARLIER, Histories
from streamlint.interp.facts.relevance import (
    callers_first,
    is_relevant,
    mentioned_in,
)
from streamlint.interp.library import hooks
from streamlint.interp.python import unseen_caller
from streamlint.interp.state import lifetime
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.values import FuncV, HeapV
from streamlint.models import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.interp.entries.construction import Construction
    from streamlint.interp.entries.progress import Told
    from streamlint.interp.facts.relevance import Relevant
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project

THEN = ", then "
"""Between the calls in the label of an entry that makes several."""
QUEUED_CALLS = 3
MOST_PREPARING = Most(40, "prepared calls")
"""Public methods of a class that are called after others; of larger ones nobody calls a few only."""
MOST_MET_AGAIN = Most(6, "calls that come back to what a call has left under way")
"""Such sequences of a class."""
MOST_WALKED = Most(6, "calls for one key after the other")
"""Such sequences of a class."""
MOST_QUIET = Most(6, "prepared calls")
"""Such sequences of a class, one after the other, that may end without anything on a second stream."""


def is_worth_calling(project: Project, cls: ir.ClassDecl, among: Relevant) -> bool:
    """Whether any method of a class may queue work: of others nobody asks in which order they are called."""
    return any(is_relevant(project, decl, among) for decl in classes.methods(project, cls).values())


def alone_and_in_pairs(
    project: Project, module: ir.Module, construction: Construction, among: Relevant, told: Told
) -> Iterator[Entry]:
    """Each public method, and pairs of them."""
    cls = construction.cls
    constructor = cls.methods.get("__init__")
    construction.in_sight = constructor is None or told.is_covered(module, constructor)
    construction.arguments_in_sight = told.shows_arguments(cls)
    methods = methods_of(project, cls)
    own = [decl for decl in methods.by_name.values() if is_relevant(project, decl, among)]
    public = [decl for decl in own if methods.may_be_called(decl)]
    one_of_several = _is_one_of_several(project, module, cls, methods)
    for decl in public:
        entry = sequence(project, module, construction, [decl], methods, repeat=True)
        # For how many tensors or modules a hook is called, a program in sight does not show.
        is_hook = decl.name in methods.hooks
        entry = replace(
            entry,
            order_in_sight=not is_hook and told.shows_order(cls, [decl.name]),
            loop_in_sight=0 if is_hook else told.shows_loop(cls, decl.name),
            one_of_several=one_of_several,
        )
        yield entry
        yield from handed.of_method(project, module, construction, entry, decl, told)
    quiet = [
        decl
        for decl in methods.by_name.values()
        # with torch.cuda.stream(self.side):    what did so and was plain waits for another method to set it
        if (decl not in own or _label(cls, [decl]) in told.plain)
        and not touching.surely(project, module, methods.reach[decl.name])
    ]
    project.budgets.allows_entries(MOST_PAIRED, len(methods.by_name), cls.qualname)
    found = pairs(project, module, cls.qualname, public, methods, among.names, told)
    histories = _histories(project, module, cls, _called_from_outside(methods))
    for number, pair in enumerate(found, 1):
        if not project.budgets.allows_entries(MOST_PAIRS, number, cls.qualname):
            return
        first, second = pair.first, pair.second
        if first in quiet and second in quiet and not pair.of_module:
            continue
        if among.of_others and (first not in own or second not in own):
            continue
        # A queue that the second method takes from may have to hold more than one element.
        queues = not ir.PUTS.isdisjoint(methods.reach[first.name]) and "len" in second.called
        times = QUEUED_CALLS if queues else 1
        entry = sequence(project, module, construction, [*[first] * times, second], methods, repeat=False)
        is_step = second.name in methods.steps
        needs = not is_step and (second.qualname in told.quiet or histories.needs(second.name, first.name))
        shown = told.shows_order(cls, [first.name, second.name])
        begun = told.begun_by(_label(cls, [first]))
        yield replace(entry, needs_earlier=needs, order_in_sight=shown, begun=begun)


def sequence(
    project: Project,
    module: ir.Module,
    construction: Construction,
    order: list[ir.FunctionDecl],
    methods: Methods,
    *,
    repeat: bool,
    walks: bool = False,
) -> Entry:
    label = _label(construction.cls, order)
    names = tuple(decl.name for decl in order)
    elsewhere = ordering.elsewhere(project, module, construction.cls, order, methods)

    def body(m: Machine) -> None:
        m.packs = methods.packs
        made, before = construction.make_and_call(m, order[0])
        m.orders_between = bool(elsewhere)
        if repeat:
            _repeat(m, made, order[0], before)
        else:
            _go_on(m, made, order, walks=walks)

    return Entry(
        label,
        module.name,
        body,
        order[0].span,
        PATHS if repeat else PAIR_PATHS,
        lines=max(decl.lines for decl in order),
        outside_calls=names,
        is_sequence=True,
        joined_elsewhere=ordering.joined_elsewhere(project, module, order, methods),
        waited_by_owners=joins.by_owners(project, construction.cls),
        known_to_makers=joins.known_to_makers(project, construction.cls),
        entered_elsewhere=ordering.entered_elsewhere(project, module, construction.cls),
        forked_elsewhere=ordering.forked(project, module, construction.cls, methods),
        orders_elsewhere=elsewhere,
        ended_by=ordering.ended_by(project, module, construction.cls, order[-1], methods),
        steps_of_ordering=ordering.steps(project, module, construction.cls, methods),
        # A hook that does no more than call the method comes between no two calls of it.
        ordered_by_hooks=any(names[0] not in methods.reach[hook] for hook in elsewhere & methods.hooks),
        finished_elsewhere=frozenset().union(
            *(
                methods.reach[name]
                for name in elsewhere
                if not vocabulary.HOST_WAITS.isdisjoint(methods.reach[name])
            )
        ),
        is_step=names[0] in methods.steps - methods.hooks,
        has_callers=names[0] in methods.called,
        arguments_in_sight=construction.arguments_in_sight,
        of_autograd=methods.packs.issuperset(names),
        # Who calls handle.wait() of whatever it gets hands on what that gives: another class is meant.
        asked_by_others=construction.in_sight
        and any(
            names[0] in decl.called & decl.members
            for other in ir.all_classes(module)
            if other is not construction.cls
            for decl in other.methods.values()
        ),
    )


def _repeat(m: Machine, made: HeapV, decl: ir.FunctionDecl, before: repetition.State) -> None:
    """The same method again and again; of hooks of tensors, into the next backward pass."""
    following = repetition.until_repeated(
        m, made, lambda number: _call_anew(m, made, decl, number), 1, before
    )
    if hooks.begins_anew(m, classes.bound(m, made, FuncV(decl)), following):
        _call_anew(m, made, decl, following)


def _go_on(m: Machine, made: HeapV, order: Sequence[ir.FunctionDecl], *, walks: bool) -> None:
    """The calls behind the first one; of what is called in a row, one more if it let memory go.

    ``start()``, then ``next()`` for one batch after the other: who has the second one drops the first, and
    only what is uploaded for the next one may get its memory.
    """
    since = lifetime.mark(m)
    for number, decl in enumerate(order[1:], 2):
        since = lifetime.mark(m)
        # load(i), step(i), evict(i): one layer. Who loads again loads another one.
        again = decl is order[0] if walks else decl in order[: number - 1]
        (_call_anew if again else _call)(m, made, decl, number)
    if len(order) > 2 and order[-1] is order[-2] and lifetime.came_back(m, since):
        _call_anew(m, made, order[-1], len(order) + 1)


def _is_one_of_several(project: Project, module: ir.Module, cls: ir.ClassDecl, methods: Methods) -> bool:
    """Whether code makes several objects of a class that orders nothing, and so has to know which is free."""
    if any(joins.orders(module, methods.reach[name]) for name in methods.by_name):
        return False
    return several.are_made(project, cls)


def _label(cls: ir.ClassDecl, order: Sequence[ir.FunctionDecl]) -> str:
    return f"{cls.qualname}." + THEN.join(name for name, _ in groupby(decl.name for decl in order))


def _call_anew(m: Machine, made: HeapV, decl: ir.FunctionDecl, number: int) -> None:
    """A call with other keys than those before it."""
    unseen_caller.go_on(m)
    _call(m, made, decl, number)


def _call(m: Machine, made: HeapV, decl: ir.FunctionDecl, number: int) -> None:
    m.call = number
    unseen_caller.call_outside(m, classes.bound(m, made, FuncV(decl)), number)


def left(project: Project, module: ir.Module, construction: Construction, told: Told) -> Iterator[Entry]:
    """Methods that touch streams and that no caller reached: helpers of subclasses, hooks, private steps."""
    cls = construction.cls
    steps, called = steps_of(cls.methods), called_of(cls.methods)
    for decl in callers_first([decl for decl in cls.methods.values() if not told.is_covered(module, decl)]):
        if told.is_covered(module, decl) or decl.name == "__init__" or not touching.touches(project, decl):
            continue

        def body(m: Machine, decl: ir.FunctionDecl = decl) -> None:
            method = FuncV(decl)
            if not decorators.is_static(decl):
                method = classes.bound(m, construction.make(m), method)
            m.call = 1
            unseen_caller.call_outside(m, method, 1)

        yield Entry(
            decl.qualname,
            module.name,
            body,
            decl.span,
            PAIR_PATHS,
            lines=decl.lines,
            by_itself=True,
            callers_cut=mentioned_in(module, decl, told.cut),
            waited_by_owners=joins.by_owners(project, cls),
            is_step=decl.name in steps,
            has_callers=decl.name in called,
        )


def prepared(project: Project, module: ir.Module, construction: Construction, told: Told) -> Iterator[Entry]:
    """Methods that did nothing on a second stream by themselves, after calls that prepare their object.

    ``push(x)`` fills the list, ``start()`` copies what is in it, ``pop()`` waits for the copies.
    """
    cls = construction.cls
    methods = methods_of(project, cls)
    public = _called_from_outside(methods)
    if not project.budgets.allows_entries(MOST_PREPARING, len(public), cls.qualname):
        return
    histories = _histories(project, module, cls, public)
    quiet = 0
    own = [decl for decl in callers_first(list(cls.methods.values())) if decl.name in public]
    asked = [(decl, preparing.works_aside(project, module, cls, histories, decl.name)) for decl in own]
    for decl, works in sorted(asked, key=lambda one: not one[1]):
        if told.was_prepared(decl.qualname):
            continue
        user = preparing.user_of_what_it_needs(project, module, histories, decl.name)
        if not (works or user):
            continue
        if not project.budgets.allows_entries(MOST_QUIET, quiet + 1, cls.qualname):
            return
        for before in preparing.orders(histories, decl.name, user, works=works):
            entry = sequence(
                project,
                module,
                construction,
                [*(methods.by_name[n] for n in before), decl],
                methods,
                repeat=False,
            )
            if before and not told.was_run(entry.label):
                yield replace(entry, prepared=True, needs_earlier=True, paths=PREPARING_PATHS)
                quiet = 0 if entry.label in told.busy else quiet + 1
            if entry.label in told.busy:
                break


def _called_from_outside(methods: Methods) -> frozenset[str]:
    public = frozenset(name for name, decl in methods.by_name.items() if methods.is_public(decl))
    return (public - methods.steps) | methods.hooks


def _histories(project: Project, module: ir.Module, cls: ir.ClassDecl, public: frozenset[str]) -> Histories:
    inherited: dict[str, list[ir.FunctionDecl]] = {}
    for ancestor in project.ancestors(cls)[0]:
        for name, decl in ancestor.methods.items():
            inherited.setdefault(name, []).append(decl)
    fillers = frozenset(
        decl.name
        for other in ir.all_classes(module)
        for decl in other.methods.values()
        if any(name for name, _ in decl.given)
    )
    return Histories(
        inherited,
        public,
        fillers,
        partial(classes.names_enumeration, project, module),
        lambda count: project.budgets.allows_entries(MOST_EARLIER, count, cls.qualname),
    )


def replaced(project: Project, module: ir.Module, construction: Construction, told: Told) -> Iterator[Entry]:
    """Sequences in which a method puts other memory in the place of what a graph was captured with."""
    cls = construction.cls
    launching = [calls for label, calls in told.launching if label.startswith(f"{cls.qualname}.")]
    if not launching:
        return
    methods = methods_of(project, cls)
    public = _called_from_outside(methods)
    histories = _histories(project, module, cls, public)
    for number, order in enumerate(sequences(module, methods, launching, histories), 1):
        if not project.budgets.allows_entries(MOST_REPLACING, number, cls.qualname):
            return
        entry = sequence(project, module, construction, order, methods, repeat=False)
        if not told.was_run(entry.label):
            shown = told.shows_order(cls, [decl.name for decl in order])
            yield replace(entry, order_in_sight=shown)


def dropping(project: Project, module: ir.Module, construction: Construction, told: Told) -> Iterator[Entry]:
    """Sequences in which memory goes back that an earlier call has used on a second stream."""
    cls = construction.cls
    leaving = [each for each in told.leaving if each.label.startswith(f"{cls.qualname}.")]
    if not leaving:
        return
    methods = methods_of(project, cls)
    for number, (order, begins) in enumerate(given_back.sequences(module, methods, leaving), 1):
        if not project.budgets.allows_entries(given_back.MOST_GIVING_BACK, number, cls.qualname):
            return
        entry = sequence(project, module, construction, order, methods, repeat=False)
        shown = told.shows_order(cls, [decl.name for decl in order])
        yield replace(entry, order_in_sight=shown, begun=begins.begun)


def met_again(project: Project, module: ir.Module, construction: Construction, told: Told) -> Iterator[Entry]:
    """One of several calls once more: what it may meet, the last of them has left under way.

    The first one, where that is a copy on memory that it touches: ``buffer.fill(a)``, then ``buffer.device``,
    which uploads what has changed, then ``buffer.fill(b)``. The last one, where it does nothing by itself:
    ``frames.start()``, then ``frames.put(a)``, then ``frames.put(b)``.
    """
    cls = construction.cls
    own = f"{cls.qualname}."
    meeting = [(calls, calls[0]) for label, calls in told.meeting if label.startswith(own)]
    following = [
        (calls, calls[-1])
        for label, calls in told.following
        if label.startswith(own) and f"{own}{calls[-1]}" in told.quiet and calls.count(calls[-1]) == 1
    ]
    methods = methods_of(project, cls) if meeting or following else None
    if methods is not None:
        following = [one for one in following if not _has_one_key(project, cls, methods, one[0])]
    for number, (calls, again) in enumerate((*meeting, *following), 1):
        if methods is None or not project.budgets.allows_entries(MOST_MET_AGAIN, number, cls.qualname):
            return
        order = [methods.by_name[name] for name in (*calls, again)]
        entry = sequence(project, module, construction, order, methods, repeat=False)
        # What the last call does by itself, no other entry explores.
        label, paths = f"{_label(cls, order[:-1])}{THEN}{again}", PATHS if again == calls[-1] else entry.paths
        entry = replace(entry, label=label, paths=paths)
        if not told.was_run(entry.label):
            shown = told.shows_order(cls, calls)
            yield replace(entry, needs_earlier=True, order_in_sight=shown)


def _has_one_key(project: Project, cls: ir.ClassDecl, methods: Methods, calls: Sequence[str]) -> bool:
    """Whether the last of several calls gets a key that an earlier one got: it is called once for each.

    ``reserve(name)``, then ``prefetch(name)``: before it is called again, another name is reserved.
    """
    *before, last = (_keyed(project, cls, methods.by_name[name]) for name in calls)
    return any(last & other for other in before)


def taking(project: Project, module: ir.Module, construction: Construction, told: Told) -> Iterator[Entry]:
    """Sequences in which a method that does nothing by itself hands out what earlier calls fill aside."""
    cls = construction.cls
    own = f"{cls.qualname}."
    filling = [calls for label, calls in told.filling if label.startswith(own)]
    if not filling:
        return
    methods = methods_of(project, cls)
    # What works aside once its object is prepared for it is no method that only hands out.
    working = {calls[-1] for label, calls in told.following if label.startswith(own)}
    number = 0
    for order in taken.sequences(module, methods, filling):
        entry = sequence(project, module, construction, order, methods, repeat=False)
        last = order[-1]
        if last.name in working or _label(cls, [last]) in told.busy or told.was_run(entry.label):
            continue
        number += 1
        if not project.budgets.allows_entries(taken.MOST_TAKEN, number, cls.qualname):
            return
        shown = told.shows_order(cls, [decl.name for decl in order])
        yield replace(entry, needs_earlier=True, order_in_sight=shown)


def walked(project: Project, module: ir.Module, construction: Construction, told: Told) -> Iterator[Entry]:
    """Two methods in turn, for one key after the other, where the first one prepares the next.

    ``before(i)`` loads layer ``i + 1``, which ``after(i + 1)`` drops.
    """
    cls = construction.cls
    methods = methods_of(project, cls)
    public = [decl for decl in methods.by_name.values() if methods.may_be_called(decl)]
    going_on = [decl for decl in public if call_keys.goes_on(project, cls, decl)]
    number = 0
    for first, second in ((one, other) for one in going_on for other in public if other is not one):
        if not (_keyed(project, cls, first) & _keyed(project, cls, second)):
            continue
        number += 1
        if not project.budgets.allows_entries(MOST_WALKED, number, cls.qualname):
            return
        order = [first, second] * 2 + [first]
        entry = sequence(project, module, construction, order, methods, repeat=False, walks=True)
        if not told.was_run(entry.label):
            yield replace(entry, order_in_sight=told.shows_order(cls, [first.name, second.name]))


def _keyed(project: Project, cls: ir.ClassDecl, decl: ir.FunctionDecl) -> frozenset[str]:
    """The attributes of which a method gets keys."""
    return frozenset().union(*call_keys.of(project, cls, decl).values())


def waiting(project: Project, module: ir.Module, construction: Construction, told: Told) -> Iterator[Entry]:
    """Methods that did nothing on a fresh object: they need what other methods leave.

    ``def finish(self): assert self.handle is not None; self.handle.wait()``
    """
    cls = construction.cls
    methods = methods_of(project, cls)
    for decl in cls.methods.values():
        if told.has_issued(decl) or decl.name == "__init__" or not touching.touches(project, decl):
            continue
        if decorators.is_static(decl) or decorators.is_of_class(decl):
            continue
        others = tuple(other for other in methods.by_name.values() if other is not decl)

        def body(
            m: Machine, decl: ir.FunctionDecl = decl, others: tuple[ir.FunctionDecl, ...] = others
        ) -> None:
            made = construction.make(m)
            unseen_caller.after_other_calls(m, made, others)
            _call(m, made, decl, 1)

        yield Entry(
            decl.qualname,
            module.name,
            body,
            decl.span,
            PAIR_PATHS,
            lines=decl.lines,
            by_itself=True,
            after_others=True,
        )
