"""Which paths of an entry are run: decisions of earlier ones, answered otherwise.

An entry is run again with single decisions flipped, nearest first, so that every arm is reached at least once
before combinations are tried. What an arm that was flipped asks again of another element, or in another pass
or call, is answered alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from streamlint.frozen import frozen
from streamlint.interp.state import questions, symbols
from streamlint.interp.state.decisions import Arm, Decision, Oracle, Worth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span

T = TypeVar("T")


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


PATHS_TO_STEPS = 3
"""Paths that are run beside ``least`` as long as an entry leads to code with streams that none has run."""
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
    ``FAR`` ones wait until one was busy, unless the entry is ``seeking``, or none that was whole did as much
    as those that were stopped (``if not requests: return`` comes to its end, too). Of ``NEAR`` and ``FAR``
    ones at most ``quiet_limit`` are flipped, ``QUIET_ASIDE`` as long as no path was busy and nothing is
    sought. As long as no path was busy, no more than ``quiet_limit`` paths are run. Afterwards ``cut`` and
    ``combinations`` tell how many paths of ``TELLING`` and ``PLAIN`` tests were left out.

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
    seeking: bool = False
    """Whether no path has run some code with streams to which the entry leads: any test may lead there."""
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
        aside = shown.aside < (self.quiet_limit if shown.busy or self.seeking else QUIET_ASIDE)
        worthwhile = {
            Worth.TELLING: True,
            Worth.PLAIN: shown.promising,
            Worth.AGAIN: True,
            Worth.NEAR: aside,
            Worth.FAR: aside and (shown.busy or self.seeking or shown.ended < shown.stopped),
        }
        found = next((worth for worth in Worth if waiting[worth] and worthwhile[worth]), None)
        far_first = self.preparing and not shown.busy and waiting[Worth.FAR]
        return Worth.FAR if found is not None and far_first else found

    def _most(self, shown: _Shown) -> int:
        if shown.busy:
            most = self.limit
        else:
            most = self.quiet_limit + min(shown.runs_by[Worth.AGAIN], self.quiet_limit)
        least = self.least + (PATHS_TO_STEPS if self.seeking else 0)
        return min(most, least + self.pending) if self.spent else most

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
    for position, decision in _some_before_all(_own(oracle, flip)):
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


def _some_before_all(asked: Iterable[tuple[int, Decision]]) -> list[tuple[int, Decision]]:
    """Decisions by place, but of what several elements were asked the second one right before the first.

    ``for key in keys: (hits if key in cache else misses).append(key)``: a path that has some of both shows
    more than one on which all are misses, as those behind the first would be. Where the arms work with
    streams themselves, what all of them leave out comes first, and a kind is that of all.
    """
    found: dict[int, list[tuple[int, Decision]]] = {}
    firsts: dict[Symbol, int] = {}
    for place, decision in asked:
        first = firsts.setdefault(decision.test, place)
        if first != place and len(found[first]) == 1 and _is_told_apart(decision):
            found[first].insert(0, (place, decision))
        else:
            found[place] = [(place, decision)]
    return [one for each in found.values() for one in each]


def _is_told_apart(decision: Decision) -> bool:
    """Whether it asks something of one of several elements, and its arms say nothing of streams."""
    return not decision.tells and decision.test is not decision.key and not _asks_kind(decision.test)


def _asks_kind(test: Symbol) -> bool:
    match test:
        case symbols.Not(of):
            return _asks_kind(of)
        case symbols.Call(symbols.Name("isinstance"), _):
            return True
        case _:
            return False


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
