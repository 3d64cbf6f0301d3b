"""Branch decisions of a path.

A path is one run of the interpreter from the start of an entry. Whenever a test cannot be decided
it asks the oracle; equal conditions get equal answers within a path (``if use_stream:`` at the fork
and again at the join). Which answers further paths give, ``exploration`` decides.

What a path has used in a way that one of its answers excludes, later paths know: who takes ``out["logits"]``
of what ``isinstance(out, dict)`` was asked of has a dict (``Oracle.refuted``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import Enumeration, frozen, replace
from streamlint.interp.state import questions, symbols
from streamlint.source import Span

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from streamlint.interp.state.symbols import Symbol


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
