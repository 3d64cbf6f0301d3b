"""What modules compute for their variables when they are imported: plain values are worked out once.

``torch_dev, device_type = get_torch_device()`` looks through a registry that functions fill, and is asked for
on each path of all entries that use ``torch_dev``. It is computed on a machine of its own, as if nothing had
run before. If it comes to something that leads nowhere (a name of a library, a number, a function, an unknown
``logger``), it does so on all paths that answer its open tests alike: they are asked these tests, in their
order, and nothing is run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from streamlint.frozen import frozen
from streamlint.interp.facts import modules
from streamlint.interp.python import functions
from streamlint.interp.state import snapshots, symbols
from streamlint.interp.state.decisions import Oracle
from streamlint.interp.state.ends import Cut, PathEnds
from streamlint.interp.state.frames import Frame
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.machine import Machine
from streamlint.interp.state.values import ApiV, ClassV, ConstV, Env, FuncV, HeapV, ModuleV, SymV, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamlint import ir
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span

_O = TypeVar("_O", bound=Oracle)


@frozen()
class _Asked:
    """An open test, as it was put to the oracle, and the answer."""

    key: Symbol
    label: str
    how: Mapping[str, Any]
    answer: int

    def put_to(self, oracle: Oracle) -> int:
        return oracle.choose(self.key, self.label, **self.how)


@frozen()
class _Computed:
    """What a variable is where some open tests are answered so."""

    value: Value | None
    """None for what leads somewhere: each path computes that anew."""
    asked: tuple[_Asked, ...]
    told: Mapping[Symbol, int]
    """Answers of tests that were not open: ``if not found: raise``."""
    steps: int
    covered: frozenset[str]
    left_out: frozenset[str]
    makers: Mapping[Symbol, str]
    """Where it is unknown, what has given it ..."""
    roles: Mapping[Symbol, Value]
    """... and what code has put into it: ``logger.propagate = False``."""


_VARIABLES: Kept[tuple[str, str, bool], list[_Computed]] = Kept()
"""By module and name, and whether a constructor asks."""
_FIRST_CALL = 1_000_000
_NUMBERS: Kept[Span, int] = Kept()
"""Numbers of calls, apart from those from outside, that stand for the statements.

``torch_dev, device_type = get_torch_device()`` is one for both variables.
"""


def at_import(m: Machine, module: ir.Module, name: str, written: ir.Expr) -> Value | None:
    """What ``name = written`` at the top of a module gives."""
    if m.imports is None:
        known: list[_Computed] = m.project.once(_VARIABLES, (module.name, name, m.constructing), list)
        found = _known(m, known)
        if found is None:
            found = _computed(m, module, written)
            known.append(found)
        if found.value is not None:
            return _take(m, found)
    return modules.at_import(m, module, written)


def came_by(m: Machine, value: HeapV) -> None:
    """Notes the object of a variable, as it is at first."""
    if m.imports is not None:
        m.imports[value.id] = snapshots.copied(m.heap[value.id])


def _known(m: Machine, known: list[_Computed]) -> _Computed | None:
    """What it is with the answers of this path; None where it was not computed with these."""
    oracle, left, number = _beside(m, Oracle()), known, 0
    while left:
        for each in left:
            if len(each.asked) == number:
                return each
        answer = left[0].asked[number].put_to(oracle)
        left = [each for each in left if each.asked[number].answer == answer]
        number += 1
    return None


def _computed(m: Machine, module: ir.Module, written: ir.Expr) -> _Computed:
    oracle = _beside(m, _Listening())
    before = set(oracle.memo)
    own = Machine(
        project=m.project, python=m.python, oracle=oracle, entry=m.entry, default_stream=m.default_stream
    )
    own.imports = {}
    # One function may have given ``logger`` to two modules: what is unknown of one says nothing of the other.
    numbers = m.project.kept(_NUMBERS)
    own.call = numbers.setdefault(written.span, _FIRST_CALL + len(numbers))
    own.constructing = m.constructing
    own.steps, own.most_steps, own.most_ops = m.steps, m.most_steps, m.most_ops
    own.frames.append(Frame(Env({}, module.name), module.name, touches=False))
    outer, m.project.budgets.left_out = m.project.budgets.left_out, set()
    try:
        value = modules.at_import(own, module, written)
    except (PathEnds, Cut):
        value = None
    finally:
        left_out, m.project.budgets.left_out = frozenset(m.project.budgets.left_out), outer
    makers, roles = _told_of(own, value)
    leads = value is None or not all(map(_is_plain, (value, *roles.values())))
    if leads or own.cut or _leaves_something(own):
        value = None
    asked = {each.key for each in oracle.heard}
    told = {key: answer for key, answer in oracle.memo.items() if key not in before and key not in asked}
    return _Computed(
        value,
        tuple(oracle.heard),
        told,
        own.steps - m.steps,
        frozenset(own.covered),
        left_out,
        makers,
        roles,
    )


def _take(m: Machine, found: _Computed) -> Value | None:
    for each in found.asked:
        each.put_to(m.oracle)
    for key, answer in found.told.items():
        if key not in m.oracle.memo:
            m.oracle.answer(key, answer)
    m.steps += found.steps
    m.covered |= found.covered
    m.makers.update(found.makers)
    m.roles.update(found.roles)
    m.project.budgets.left_out |= found.left_out
    return found.value


def _beside(m: Machine, oracle: _O) -> _O:
    """Makes an oracle answer as that of the path would from here on."""
    oracle.forced, oracle.beliefs = m.oracle.forced, m.oracle.beliefs
    oracle.go_on_from(m.oracle)
    return oracle


def _is_plain(value: Value) -> bool:
    """Whether a value leads to nothing that a path has."""
    match value:
        case ApiV() | ConstV() | ClassV() | ModuleV():
            return True
        case FuncV(closure=None, receiver=None) | SymV(holds=()):
            return True
        case _:
            return False


def _told_of(own: Machine, value: Value | None) -> tuple[dict[Symbol, str], dict[Symbol, Value]]:
    """What has given an unknown value, and what it came from, and what code has put into it."""
    if not isinstance(value, SymV):
        return {}, {}
    chain = (value.symbol, *symbols.owners(value.symbol))
    made = {one: own.makers[one] for one in chain if one in own.makers}
    return made, {place: held for place, held in own.roles.items() if symbols.is_under(place, value.symbol)}


def _leaves_something(own: Machine) -> bool:
    """Whether it has done more than to give a value, and later code may meet that.

    It has made a stream, memory or a hook, or has filled a table: ``READY = register(HANDLERS)``.
    """
    if own.streams or own.events or own.buffers or own.hooks or own.replaced or functions.uncalled(own):
        return True
    return any(own.heap[number] != before for number, before in (own.imports or {}).items())


@dataclass(slots=True)
class _Listening(Oracle):
    """Keeps what it is asked."""

    heard: list[_Asked] = field(default_factory=list)

    def choose(self, key: Symbol, label: str, **how: Any) -> int:  # noqa: ANN401
        answer = Oracle.choose(self, key, label, **how)
        self.heard.append(_Asked(key, label, how, answer))
        return answer
