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

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from streamlint.frozen import frozen
from streamlint.interp.state import questions, symbols

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from streamlint.interp.state.symbols import Symbol

T = TypeVar("T")


@frozen()
class Decision:
    key: Symbol
    label: str
    options: int
    chosen: int
    relevant: bool
    again: bool = False
    """Whether a constructor asked first, and code that works with streams asked again, or used what the
    constructor chose by the answer."""
    leads: bool = False
    """Whether code asked that works with streams through what it calls."""


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
        alike: Symbol | None = None,
    ) -> int:
        """The answer for ``key``; asking twice gives the same one.

        ``alike`` is what it asks of any element, and in any pass and call, where the key does not tell.
        """
        if key in self.memo:
            if relevant:
                self.asked_again((key,))
            return self.memo[key]
        position = len(self.taken)
        asked = questions.of_any(alike or key), default
        if position < len(self.forced):
            chosen = self.flipped[asked] = self.forced[position]
        elif key in self.beliefs:
            chosen = self.beliefs[key]
        else:
            # for key in batch: if isinstance(batch[key], Tensor): all of them before one among others.
            chosen = self.flipped.get(asked, default)
        self.taken.append(Decision(key, label, options, chosen, relevant, leads=leads))
        self.answer(key, chosen)
        return chosen

    def asked_again(self, keys: Container[Symbol]) -> None:
        """Code that works with streams asks what a constructor has asked, or what it chose by that."""
        for position, decision in enumerate(self.taken):
            if decision.key in keys and not decision.again:
                self.taken[position] = replace(decision, again=True)

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
        )

    def comes_by(self, earlier: Oracle) -> bool:
        """Whether the path, at its start, is one that comes by the point of another path."""
        if self.forced == earlier.forced and self.beliefs == earlier.beliefs:
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
        return tuple(_told(decision) for decision in self.taken)


def _told(d: Decision) -> str:
    """What was decided; what has one option was only assumed."""
    if d.options == 1:
        return d.label
    return f"{d.label} is {('true', 'false')[d.chosen] if d.options == 2 else d.chosen}"


@frozen()
class _Flip:
    """A path that is known and was not run: its answers up to the one that differs."""

    forced: tuple[int, ...] = ()
    arm: tuple[Symbol, int] | None = None
    """The test whose answer that is, whichever element, pass or call asks, and the answer."""
    anew: bool = False
    """Whether it is the first path once more, which knows better."""


CORRECTIONS = 5
"""Paths that begin anew: as many as a table of lists of tables of tensors has layers, and one."""


@dataclass(slots=True)
class Exploration(Generic[T]):
    """Iterates over the results of up to ``limit`` paths, over flipped decisions.

    Those with an arm that no path has taken come first, then the nearest.

    Decisions that are not relevant are flipped last: those that relevant code asked again, those of code that
    leads to some, and then, if some path was ``busy`` or none that was ``whole`` did as much as those that
    were stopped (``if not requests: return`` comes to its end, too), others; of both at most ``quiet_limit``.
    As long as no path was busy, no more than ``quiet_limit`` are run. Afterwards ``cut`` and ``combinations``
    tell how many known paths were left out.

    A path that did what an earlier one did (equal ``outcome``) is not combined with the decisions
    that have been asked before: only what its other arm asks for the first time is flipped.

    Paths on which a constructor chooses otherwise what relevant code uses do not count as quiet ones:
    ``self.mode`` may be one on which nothing is done aside. There are ``quiet_limit`` more for them.
    """

    run: Callable[[Oracle], T]
    limit: int
    quiet_limit: int
    is_busy: Callable[[T], bool]
    is_whole: Callable[[T], bool]
    """Whether a path came to its end: no ``assert self.stream is not None`` stopped it."""
    reach: Callable[[T], int]
    """How much a path did. One that was stopped behind what all whole ones did had something else to do."""
    outcome: Callable[[T], object]
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

    def __iter__(self) -> Iterator[T]:
        waiting = [_Flip()]
        again: list[_Flip] = []
        near: list[_Flip] = []
        later: list[_Flip] = []
        busy = False
        ended = stopped = -1
        runs = others = chosen_anew = 0
        outcomes: set[object] = set()
        asked: set[Symbol] = set()
        arms: set[tuple[Symbol, int]] = set()
        while (
            waiting
            or again
            or (others < self.quiet_limit and (near or (later and (busy or ended < stopped))))
        ):
            if runs >= (self.limit if busy else self.quiet_limit + min(chosen_anew, self.quiet_limit)):
                untaken = sum(flip.arm not in arms for flip in waiting)
                self.cut += untaken
                self.combinations = len(waiting) - untaken
                return
            queue = (self.preparing and not busy and later) or waiting or again or near or later
            others += queue is near or queue is later
            chosen_anew += queue is again
            flip = next((each for each in queue if each.arm not in arms), queue[0])
            queue.remove(flip)
            runs += not flip.anew
            oracle = Oracle(flip.forced, beliefs=dict(self.beliefs))
            result = self.run(oracle)
            waiting[:0] = self._anew(oracle)
            busy = busy or self.is_busy(result)
            if self.is_whole(result):
                ended = max(ended, self.reach(result))
            else:
                stopped = max(stopped, self.reach(result))
            outcome = self.outcome(result)
            is_new = outcome not in outcomes
            outcomes.add(outcome)
            yield result
            chosen = tuple(decision.chosen for decision in oracle.taken)
            # The path that this one was flipped from has asked the tests before its own.
            own = range(len(flip.forced), len(oracle.taken))
            tests = {position: questions.of_any(oracle.taken[position].key) for position in own}
            for position in own:
                decision = oracle.taken[position]
                if not is_new and decision.key in asked:
                    continue
                aside = again if decision.again else near if decision.leads else later
                queue = waiting if decision.relevant else aside
                for other in range(decision.options):
                    if other != decision.chosen:
                        queue.append(_Flip((*chosen[:position], other), (tests[position], other)))
            asked.update(decision.key for decision in oracle.taken)
            arms.update((test, chosen[position]) for position, test in tests.items())
            if flip.arm is not None:
                arms.add(flip.arm)

    def _anew(self, oracle: Oracle) -> list[_Flip]:
        """The path that begins anew, knowing the right answer to what one has answered wrongly first."""
        wrong = [d.key for d in oracle.taken if d.key in oracle.refuted and d.key not in self.beliefs]
        if wrong and self.corrected == CORRECTIONS:
            self.cut += 1
        if not wrong or self.corrected == CORRECTIONS:
            return []
        self.corrected += 1
        self.beliefs[wrong[0]] = oracle.refuted[wrong[0]]
        return [_Flip(anew=True)]
