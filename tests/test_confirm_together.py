"""Whose doing it is what shows in a run in which several executions are held back, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.confirm.run.seen import Seen
from streamlint.confirm.run.together import Shown, Together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.confirm.inside.turns import Execution


class Runs:
    """A program whose executions race, and some of which spoil what others look at."""

    def __init__(
        self,
        racing: set[int],
        spoils: dict[int, int] | None = None,
        ends: int | None = None,
        together: Sequence[set[int]] = (),
    ) -> None:
        self.racing, self.spoils, self.ends, self.together = racing, spoils or {}, ends, together
        self.made: list[tuple[list[int], list[int]]] = []

    def __call__(self, held: Sequence[Execution], free: Sequence[Execution] = ()) -> Seen:
        gates, looked = [n for n, _ in held], [n for n, _ in free]
        self.made.append((gates, looked))
        begun: list[Execution] = []
        for number in sorted([*gates, *looked]):
            if not any({number, other} <= pair for pair in self.together for other, _ in begun):
                begun.append((number, 0))
        wrong = self.racing.intersection(gates) | {self.spoils[n] for n in gates if n in self.spoils}
        ended = 1 if self.ends in gates else 0
        return Seen(ended=ended, started=True, begun=begun, environment={str(n): "wrong" for n in wrong})

    def shows(self, execution: Execution, seen: Seen) -> Shown:
        if str(execution[0]) in seen.environment:
            return Shown.CONTENTS
        return Shown.ENDING if seen.ended else Shown.NOTHING

    def told(self, count: int) -> set[int]:
        """The executions that show."""
        answers = Together(self, self.shows).tell([(number, 0) for number in range(count)])
        assert len(answers) == count
        return {n for (n, turn), seen in answers.items() if self.shows((n, turn), seen) is not Shown.NOTHING}


@pytest.mark.parametrize(("count", "runs"), [(1, 1), (2, 2), (4, 3), (8, 4), (16, 5)])
def test_the_runs_of_findings_that_all_show_grow_with_their_logarithm(count: int, runs: int) -> None:
    every = Runs(set(range(count)))
    assert every.told(count) == set(range(count))
    assert len(every.made) == runs


def test_what_shows_nothing_takes_one_run() -> None:
    none = Runs(set())
    assert none.told(9) == set()
    assert len(none.made) == 1


@pytest.mark.parametrize("spoilt", range(1, 6))
def test_what_another_race_has_spoilt_is_run_alone(spoilt: int) -> None:
    for spoiling in range(spoilt):
        runs = Runs({spoiling}, {spoiling: spoilt})
        assert runs.told(6) == {spoiling}
        assert ([spoilt], []) in runs.made


def test_what_spoils_and_shows_nothing_itself_is_found_out() -> None:
    assert Runs(set(), {0: 3}).told(5) == set()


def test_a_program_that_ends_otherwise_is_nobodys_doing_until_each_was_alone() -> None:
    runs = Runs({0, 1}, ends=2)
    assert runs.told(3) == {0, 1, 2}
    assert ([2], []) in runs.made


def test_what_comes_while_another_turn_is_under_way_has_another_run() -> None:
    runs = Runs({0, 1, 2}, together=[{0, 1}])
    assert runs.told(3) == {0, 1, 2}
    assert [gates for gates, _ in runs.made] == [[0, 1, 2], [0], [1]]


def test_turns_of_several_processes_are_not_shared() -> None:
    class Apart(Runs):
        def __call__(self, held: Sequence[Execution], free: Sequence[Execution] = ()) -> Seen:
            seen = super().__call__(held, free)
            seen.begun = []
            return seen

    runs = Apart({1})
    assert runs.told(2) == {1}
    assert [gates for gates, _ in runs.made] == [[0, 1], [0], [1]]
