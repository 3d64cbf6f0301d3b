"""Questions whose answers rest on each other, also in circles: each is answered once, as far as can be.

One that comes back to itself adds nothing to its answer. What was found inside of such a circle is no answer
for good, since it depends on where the circle was entered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from streamlint.frozen import frozen, replace
from streamlint.interp.facts.kinds import NOTHING, Fact
from streamlint.interp.state.budgets import Most

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.interp.state.project import Project

_Q = TypeVar("_Q")

MOST_OPEN = Most(24, "what values are")
"""Questions that lead to each other."""


@dataclass(slots=True)
class _Asking(Generic[_Q]):
    """An open question, and what has been asked for it so far that has no answer for good."""

    asked: set[_Q] = field(default_factory=set)
    deepest: int = 0
    """The most questions that were open at a time."""
    limited: bool = False
    """Whether there were too many."""


@frozen()
class _Partial(Generic[_Q]):
    """What was found for a question that leads back to an open one, which may not be all.

    It would be found again in just the same way while the questions that it came back to stay open, and none
    of the others that it asked is opened. Then it is dropped.
    """

    fact: Fact
    depth: int
    """How many questions were open when it was asked."""
    asking: _Asking[_Q]

    def holds(self, depth: int) -> bool:
        """Whether as much is left of the limit as it took, or, if it came to that, as there was."""
        deepest = depth + self.asking.deepest - self.depth
        return depth == self.depth if self.asking.limited else deepest <= MOST_OPEN.number


@dataclass(slots=True)
class Circles(Generic[_Q]):
    """The answers of one project."""

    project: Project
    _answers: dict[_Q, Fact] = field(default_factory=dict)
    _open: dict[_Q, _Asking[_Q]] = field(default_factory=dict)
    """The innermost one last."""
    _cut: set[_Q] = field(default_factory=set)
    """Open questions that came back to themselves: what was found inside of them may not be all."""
    _partial: dict[_Q, _Partial[_Q]] = field(default_factory=dict)
    _askers: dict[_Q, list[_Q]] = field(default_factory=dict)
    """Of the partial answers, those for which a question was asked."""

    def once(self, question: _Q, answer: Callable[[], Fact]) -> Fact:
        known = self._answers.get(question)
        if known is not None:
            return known
        depth = len(self._open)
        if question in self._open:
            self._cut.add(question)
            self._note(question, _Asking(deepest=depth))
            return NOTHING
        if not self.project.budgets.allows(MOST_OPEN, depth):
            self._cut.update(self._open)
            self._note(question, _Asking(deepest=depth, limited=True))
            return NOTHING
        partial = self._partial.get(question)
        if partial is not None and partial.holds(depth):
            return self._again(question, partial, depth)
        return self._find(question, answer)

    def _find(self, question: _Q, answer: Callable[[], Fact]) -> Fact:
        depth = len(self._open)
        self._drop_askers(question)
        asking: _Asking[_Q] = _Asking(deepest=depth)
        self._open[question] = asking
        try:
            found = answer()
        finally:
            del self._open[question]
            self._cut.discard(question)
            self._drop_askers(question)
        if not self._cut:
            self._answers[question] = found
            return found
        self._partial[question] = _Partial(found, depth, asking)
        for each in asking.asked:
            self._askers.setdefault(each, []).append(question)
        self._note(question, asking)
        return found

    def _again(self, question: _Q, partial: _Partial[_Q], depth: int) -> Fact:
        """What was found, with all that finding it has shown."""
        asking = partial.asking
        if asking.limited:
            self.project.budgets.cut(MOST_OPEN)
            self._cut.update(self._open)
        else:
            self._cut.update(self._open.keys() & asking.asked)
        self._note(question, replace(asking, deepest=depth + asking.deepest - partial.depth))
        return partial.fact

    def _note(self, question: _Q, asking: _Asking[_Q]) -> None:
        """The innermost open question asks another one, and all that this one asks."""
        if self._open:
            around = self._open[next(reversed(self._open))]
            around.asked.add(question)
            around.asked |= asking.asked
            around.deepest = max(around.deepest, asking.deepest)
            around.limited = around.limited or asking.limited

    def _drop_askers(self, question: _Q) -> None:
        for asker in self._askers.pop(question, ()):
            self._partial.pop(asker, None)
