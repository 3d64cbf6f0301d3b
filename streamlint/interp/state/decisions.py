"""Branch decisions and the exploration of paths.

A path is one run of the interpreter from the start of an entry. Whenever a test cannot be decided
it asks the oracle; equal conditions get equal answers within a path (``if use_stream:`` at the fork
and again at the join). ``Exploration`` then re-runs the entry with single decisions flipped, nearest
first, so that every arm is reached at least once before combinations are tried. What an arm that was flipped
asks again of another element, or in another pass or call, is answered alike.

What a path has used in a way that one of its answers excludes, later paths know: who takes ``out["logits"]``
of what ``isinstance(out, dict)`` was asked of has a dict (``Oracle.refuted``, ``Exploration.beliefs``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from streamlint.frozen import Enumeration, frozen, replace
from streamlint.interp.state import questions, symbols
from streamlint.source import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence

    from streamlint.interp.state.symbols import Symbol

T = TypeVar("T")


class Worth(Enumeration):
    """Why a test is worth another path. What is worth more comes first."""

    TELLING = "relevant code asked, and the text of the arms tells of streams"
    PLAIN = "relevant code asked, and nothing in the arms tells of streams"
    AGAIN = "a constructor asked, and relevant code asked again"
    NEAR = "code asked that leads to relevant code"
    FAR = "other code asked"


@frozen()
class Asked:
    """Where a path asks: an operand of a test."""

    at: Span
    negated: bool = False
    """Whether it holds if what is asked of the value does not: ``x is not None``."""
    joins: bool = False
    """Whether the answer that is not explored first leads into code behind which the path goes on."""


Arm: TypeAlias = tuple[Span, bool]
"""An operand of a test, and whether it holds: whatever value is asked there."""


@frozen()
class Decision:
    key: Symbol
    test: Symbol
    """What it asks, whichever element, pass or call asks: ``questions.of_any``."""
    label: str
    options: int
    chosen: int
    relevant: bool
    again: bool = False
    """Whether a constructor asked first, and code that works with streams asked again, or used what the
    constructor chose by the answer."""
    leads: bool = False
    """Whether code asked that works with streams through what it calls."""
    tells: bool = True
    """Whether what it chooses between may have to do with streams, as the text of the arms says."""
    known: int | None = None
    """The answer that the numbers of this pass give: nothing is assumed with it."""
    asked: Asked | None = None

    def arm(self, answer: int) -> Arm | None:
        """What an answer leads into, if the source has a test there."""
        return None if self.asked is None else (self.asked.at, (answer == 0) != self.asked.negated)

    @property
    def worth(self) -> Worth:
        """What a path is worth that answers it otherwise."""
        if self.relevant:
            return Worth.TELLING if self.tells else Worth.PLAIN
        return Worth.AGAIN if self.again else Worth.NEAR if self.leads else Worth.FAR


@dataclass(slots=True)
class Oracle:
    """Answers undecided tests of one path: first from ``forced``, then by each test's default."""

    forced: tuple[int, ...] = ()
    taken: list[Decision] = field(default_factory=list)
    memo: dict[Symbol, int] = field(default_factory=dict)
    absent: set[Symbol] = field(default_factory=set)
    """What the path has taken to be ``None``."""
    flipped: dict[tuple[Symbol, int], int] = field(default_factory=dict)
    """What a forced answer says of other elements, passes and calls, by what they would answer without it."""
    beliefs: dict[Symbol, int] = field(default_factory=dict)
    """What earlier paths have shown, by what it answers."""
    refuted: dict[Symbol, int] = field(default_factory=dict)
    """What this path has answered otherwise than what it has shown since, and the right answers."""
    sought: Mapping[Span, bool] = field(default_factory=dict)
    """Arms that no path has taken, and this one takes, as far as it comes by them."""

    def begin(self, forced: tuple[int, ...]) -> None:
        """Starts the path anew with other answers."""
        self.forced = forced
        for kept in (self.taken, self.memo, self.absent, self.flipped, self.refuted):
            kept.clear()

    def choose(
        self,
        key: Symbol,
        label: str,
        *,
        options: int = 2,
        default: int = 0,
        relevant: bool = True,
        leads: bool = False,
        tells: bool = True,
        alike: Symbol | None = None,
        known: int | None = None,
        asked: Asked | None = None,
    ) -> int:
        """The answer for ``key``; asking twice gives the same one.

        ``alike`` is what it asks of any element, and in any pass and call, where the key does not tell.
        """
        if key in self.memo:
            if relevant:
                self.asked_again((key,))
            elif leads:
                self._leads(key)
            return self.memo[key]
        position = len(self.taken)
        test = questions.of_any(key if alike is None else alike)
        like = test, default
        if position < len(self.forced):
            chosen = self.flipped[like] = self.forced[position]
        elif (believed := self.believed(key)) is not None:
            chosen = believed
        elif asked is not None and asked.at in self.sought:
            chosen = int(self.sought[asked.at] == asked.negated)
        else:
            # for key in batch: if isinstance(batch[key], Tensor): all of them before one among others.
            chosen = self.flipped.get(like, default)
        decision = Decision(
            key, test, label, options, chosen, relevant, leads=leads, tells=tells, known=known, asked=asked
        )
        self.taken.append(decision)
        self.answer(key, chosen)
        return chosen

    def believed(self, key: Symbol) -> int | None:
        """What earlier paths have shown: of this, or of what stood at its place in another pass or call."""
        if not self.beliefs:
            return None
        exactly = self.beliefs.get(key)
        return exactly if exactly is not None else self.beliefs.get(questions.of_any_pass(key))

    def asked_again(self, keys: Container[Symbol]) -> None:
        """Code that works with streams asks what a constructor has asked, or what it chose by that."""
        for position, decision in enumerate(self.taken):
            if decision.key in keys and not decision.again:
                self.taken[position] = replace(decision, again=True)

    def _leads(self, key: Symbol) -> None:
        """Code that leads to what works with streams asks what a constructor, mostly, has asked."""
        for position, decision in enumerate(self.taken):
            if decision.key is key and not decision.leads:
                self.taken[position] = replace(decision, leads=True)

    def answer(self, key: Symbol, chosen: int) -> None:
        """Keeps an answer for the rest of the path."""
        self.memo[key] = chosen
        match key:
            case symbols.Compare("is", of, symbols.NOTHING) if chosen == 0:
                self.absent.add(of)
            case _:
                pass

    def shows(self, key: Symbol, answer: int) -> None:
        """Something the path does shows the answer to a test, which it may have answered otherwise."""
        if self.memo.get(key, answer) != answer:
            self.refuted.setdefault(key, answer)

    @property
    def chosen(self) -> tuple[int, ...]:
        return tuple(decision.chosen for decision in self.taken)

    def so_far(self) -> Oracle:
        """A copy that stands for this point of the path."""
        given = self.forced[: len(self.taken)]
        return Oracle(
            given,
            self.taken.copy(),
            self.memo.copy(),
            self.absent.copy(),
            self.flipped.copy(),
            self.beliefs.copy(),
            self.refuted.copy(),
            self.sought,
        )

    def comes_by(self, earlier: Oracle) -> bool:
        """Whether the path, at its start, is one that comes by the point of another path."""
        if self.forced == earlier.forced and self.beliefs == earlier.beliefs:
            asked = (decision.asked.at for decision in earlier.taken if decision.asked is not None)
            if not (self.sought or earlier.sought) or all(
                self.sought.get(at) == earlier.sought.get(at) for at in asked
            ):
                return True
        return self.forced[: len(earlier.taken)] == earlier.chosen

    def go_on_from(self, earlier: Oracle) -> None:
        """Has answered what was answered until a point which this path comes by."""
        self.taken[:] = earlier.taken
        self.memo.update(earlier.memo)
        self.absent |= earlier.absent
        self.flipped.update(earlier.flipped)
        self.refuted.update(earlier.refuted)

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(_told(decision) for decision in self.taken if decision.chosen != decision.known)


def _told(d: Decision) -> str:
    """What was decided; what has one option was only assumed."""
    if d.options == 1:
        return d.label
    return f"{d.label} is {('true', 'false')[d.chosen] if d.options == 2 else d.chosen}"


@frozen()
class _Flip:
    """A path that is known and was not run: its answers up to the one that differs."""

    forced: tuple[int, ...] = ()
    answer: tuple[Symbol, int] | None = None
    """The test whose answer that is, whichever element, pass or call asks, and the answer."""
    arm: Arm | None = None
    """Where it is answered like that."""
    joins: bool = False
    """Whether a path may take other arms beside this one."""
    sought: Mapping[Span, bool] = field(default_factory=dict, compare=False)
    """Arms that no path has taken, if this one takes all that it comes by."""
    anew: bool = False
    """Whether it is the first path once more, which knows better."""
    begun: Mapping[Symbol, int] = field(default_factory=dict, compare=False)
    """What a path of another entry has answered, if this one begins like that."""

    def begins_like(self, oracle: Oracle) -> bool:
        """Whether a path that was run has answered all alike that this one is to begin with."""
        return bool(self.begun) and all(
            self.begun.get(decision.key, decision.chosen) == decision.chosen for decision in oracle.taken
        )


CORRECTIONS = 5
"""Paths that begin anew: as many as a table of lists of tables of tensors has layers, and one."""


QUIET_ASIDE = 2
"""Tests of code that is not relevant that are flipped as long as no path was busy: ``assert len(self.inputs)
== 1`` behind a loop that asks of each binding whether it is an input stops all paths but one that mixes."""


@dataclass(slots=True)
class _Shown:
    """What the paths that were run have shown."""

    busy: bool = False
    """Whether one of them had something to order ..."""
    promising: bool = False
    """... or more than one stream."""
    ended: int = -1
    stopped: int = -1
    """How much those did that came to their end, and those that were stopped."""
    runs: int = 0
    runs_by: dict[Worth, int] = field(default_factory=lambda: dict.fromkeys(Worth, 0))
    outcomes: set[object] = field(default_factory=set)
    asked: set[Symbol] = field(default_factory=set)
    answers: set[tuple[Symbol, int]] = field(default_factory=set)
    """How tests were answered ..."""
    arms: set[Arm] = field(default_factory=set)
    """... and the arms that were taken by that."""

    @property
    def aside(self) -> int:
        return self.runs_by[Worth.NEAR] + self.runs_by[Worth.FAR]

    def is_new(self, flip: _Flip) -> bool:
        """Whether a path leads into an arm that none has taken, whatever its test was asked of.

        ``for p in params: if p.is_sharded: ...``: of one parameter or of another one.
        """
        return flip.answer not in self.answers if flip.arm is None else flip.arm not in self.arms

    def next_of(self, flips: Sequence[_Flip]) -> _Flip:
        new = next((flip for flip in flips if self.is_new(flip)), None)
        return new or next((flip for flip in flips if flip.answer not in self.answers), flips[0])


@dataclass(slots=True)
class Exploration(Generic[T]):
    """Iterates over the results of up to ``limit`` paths, over flipped decisions.

    Those with an arm that no path has taken come first, then the nearest. The last one takes all arms that
    are left, which no path would run else.

    Which tests are flipped first, ``Worth`` says. ``PLAIN`` ones wait until some path was promising or busy.
    ``FAR`` ones wait until one was busy, unless none that was whole did as much as those that were stopped
    (``if not requests: return`` comes to its end, too). Of ``NEAR`` and ``FAR`` ones at most ``quiet_limit``
    are flipped, ``QUIET_ASIDE`` as long as no path was busy. As long as no path was busy, no more than
    ``quiet_limit`` paths are run. Afterwards ``cut`` and ``combinations`` tell how many paths of ``TELLING``
    and ``PLAIN`` tests were left out.

    A path that did what an earlier one did (equal ``outcome``) is not combined with the decisions
    that have been asked before: only what its other arm asks for the first time is flipped.

    Paths on which a constructor chooses otherwise what relevant code uses do not count as quiet ones:
    ``self.mode`` may be one on which nothing is done aside. There are ``quiet_limit`` more for them.
    """

    run: Callable[[Oracle], T]
    limit: int
    quiet_limit: int
    is_busy: Callable[[T], bool]
    is_promising: Callable[[T], bool]
    """Whether a path has more than one stream, if only one has work: an arm may give work to the other."""
    is_whole: Callable[[T], bool]
    """Whether a path came to its end: no ``assert self.stream is not None`` stopped it."""
    reach: Callable[[T], int]
    """How much a path did. One that was stopped behind what all whole ones did had something else to do."""
    outcome: Callable[[T], object]
    begun: Sequence[Mapping[Symbol, int]] = ()
    """Answers with which paths behind the first one begin: those of an earlier entry that make this one worth
    its time."""
    least: int = 0
    """Paths that are run in any case ..."""
    spent: bool = False
    """... when the steps of the entry are used up ..."""
    nearly_spent: bool = False
    """... and whether they will be behind the next one."""
    preparing: bool = False
    """Whether decisions that are not relevant are flipped first, until a path is busy."""
    cut: int = 0
    """Known paths left out with an arm of a test that no path has taken ..."""
    combinations: int = 0
    """... and those that only combine arms which others have taken."""
    beliefs: dict[Symbol, int] = field(default_factory=dict)
    """Answers that a path has refuted of its own, as they should have been ..."""
    corrected: int = 0
    """... and how many paths began anew with one more: ``CORRECTIONS``."""
    pending: bool = False
    """Whether the next one does."""

    def __iter__(self) -> Iterator[T]:
        waiting: dict[Worth, list[_Flip]] = {worth: [] for worth in Worth}
        waiting[Worth.TELLING] += [_Flip(), *(_Flip(begun=answers) for answers in self.begun)]
        shown = _Shown()
        while (worth := self._next(waiting, shown)) is not None:
            if shown.runs >= self._most(shown):
                left = [flip for flip in _of_relevant(waiting, shown) if flip.answer is not None]
                new = [flip for flip in left if shown.is_new(flip)]
                self.cut += len({flip.arm or flip.answer for flip in new})
                self.combinations = len(left) - len(new)
                return
            flip = self._of_all(waiting, shown)
            if flip is None:
                flip = shown.next_of(waiting[worth])
                waiting[worth].remove(flip)
            oracle = Oracle(flip.forced, beliefs={**flip.begun, **self.beliefs}, sought=flip.sought)
            result = self.run(oracle)
            anew = self._anew(oracle, flip)
            self.pending = bool(anew)
            waiting[Worth.TELLING][:0] = anew
            is_new = self._note(shown, worth, flip, result)
            waiting[Worth.TELLING] = [one for one in waiting[Worth.TELLING] if not one.begins_like(oracle)]
            yield result
            for decision, found in _flips(oracle, flip):
                if (is_new and not flip.sought) or decision.key not in shown.asked:
                    waiting[decision.worth] += found
            shown.asked.update(decision.key for decision in oracle.taken)
            _note_answers(shown, oracle, flip)

    def _of_all(self, waiting: Mapping[Worth, Sequence[_Flip]], shown: _Shown) -> _Flip | None:
        """The last path that is allowed: one that takes all arms at once that none has taken.

        Not those that lead out of their function, or lead nowhere, and none if there are calls to choose.
        """
        count = shown.runs + 1
        is_last = count == self._most(shown) or (self.nearly_spent and count >= self.least)
        if self.preparing or not is_last:
            return None
        new = (flip for flip in _of_relevant(waiting, shown) if flip.joins and shown.is_new(flip))
        sought = dict(flip.arm for flip in new if flip.arm is not None)
        return _Flip(sought=sought) if len(sought) > 1 else None

    def _next(self, waiting: Mapping[Worth, Sequence[_Flip]], shown: _Shown) -> Worth | None:
        """Which test is flipped next; None where no path that is known is worth its time."""
        aside = shown.aside < (self.quiet_limit if shown.busy else QUIET_ASIDE)
        worthwhile = {
            Worth.TELLING: True,
            Worth.PLAIN: shown.promising,
            Worth.AGAIN: True,
            Worth.NEAR: aside,
            Worth.FAR: aside and (shown.busy or shown.ended < shown.stopped),
        }
        found = next((worth for worth in Worth if waiting[worth] and worthwhile[worth]), None)
        far_first = self.preparing and not shown.busy and waiting[Worth.FAR]
        return Worth.FAR if found is not None and far_first else found

    def _most(self, shown: _Shown) -> int:
        if shown.busy:
            most = self.limit
        else:
            most = self.quiet_limit + min(shown.runs_by[Worth.AGAIN], self.quiet_limit)
        return min(most, self.least + self.pending) if self.spent else most

    def _note(self, shown: _Shown, worth: Worth, flip: _Flip, result: T) -> bool:
        """Notes what a path has shown, and whether it did what none had done."""
        shown.runs += not flip.anew
        shown.runs_by[worth] += 1
        shown.busy = shown.busy or self.is_busy(result)
        shown.promising = shown.promising or shown.busy or self.is_promising(result)
        if self.is_whole(result):
            shown.ended = max(shown.ended, self.reach(result))
        else:
            shown.stopped = max(shown.stopped, self.reach(result))
        outcome = self.outcome(result)
        is_new = outcome not in shown.outcomes
        shown.outcomes.add(outcome)
        return is_new

    def _anew(self, oracle: Oracle, flip: _Flip) -> list[_Flip]:
        """The path that begins anew, knowing the right answer to what one has answered wrongly first."""
        wrong = [d.key for d in oracle.taken if d.key in oracle.refuted and d.key not in self.beliefs]
        if wrong and self.corrected == CORRECTIONS:
            self.cut += 1
        if not wrong or self.corrected == CORRECTIONS:
            return []
        self.corrected += 1
        answer = oracle.refuted[wrong[0]]
        self.beliefs[wrong[0]] = answer
        # for batch in loader: if isinstance(batch, dict): what one is, the others are by default.
        self.beliefs.setdefault(questions.of_any_pass(wrong[0]), answer)
        return [_Flip(anew=True, begun=flip.begun)]


def _of_relevant(waiting: Mapping[Worth, Sequence[_Flip]], shown: _Shown) -> list[_Flip]:
    """The paths that code which works with streams chooses: those with an answer that may matter."""
    return [*waiting[Worth.TELLING], *(waiting[Worth.PLAIN] if shown.promising else ())]


def _flips(oracle: Oracle, flip: _Flip) -> Iterator[tuple[Decision, list[_Flip]]]:
    """The paths that differ from one in one of its own answers, by that."""
    chosen = oracle.chosen
    for position, decision in _own(oracle, flip):
        others = (other for other in range(decision.options) if other != decision.chosen)
        yield (
            decision,
            [
                _Flip(
                    (*chosen[:position], other),
                    (decision.test, other),
                    decision.arm(other),
                    begun=flip.begun,
                    joins=decision.asked is not None and decision.asked.joins,
                )
                for other in others
            ],
        )


def _note_answers(shown: _Shown, oracle: Oracle, flip: _Flip) -> None:
    """The arms that a path took, and which are not those of the path that it was flipped from."""
    begin = max(len(flip.forced) - 1, 0)
    for decision in oracle.taken[begin:]:
        shown.answers.add((decision.test, decision.chosen))
        if (arm := decision.arm(decision.chosen)) is not None:
            shown.arms.add(arm)


def _own(oracle: Oracle, flip: _Flip) -> Iterator[tuple[int, Decision]]:
    """What a path decided by itself, and where. That which it was flipped from has asked the tests before."""
    begin = len(flip.forced)
    return enumerate(oracle.taken[begin:], begin)
