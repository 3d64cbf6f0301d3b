"""Which of the paths through an entry are run, and in which order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.interp.state import symbols
from streamlint.interp.state.decisions import TRIES_IN_VAIN, Exploration

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.interp.state.decisions import Oracle


@dataclass
class Ran:
    """A path: what it answered, and what it did."""

    answers: dict[str, int] = field(default_factory=dict)
    did: tuple[object, ...] = ()
    busy: bool = False
    streams: int = 1


@dataclass
class Program:
    """Tests that a path decides one after the other; ``does`` says what it does by its answers."""

    tests: dict[str, bool]
    """By name: whether the text of their arms tells of streams."""
    does: Callable[[dict[str, int]], tuple[object, ...]]
    busy: Callable[[dict[str, int]], bool]
    relevant: bool = True
    streams: int = 1

    def run(self, oracle: Oracle) -> Ran:
        answers = {
            name: oracle.choose(symbols.Name(name), name, relevant=self.relevant, tells=tells)
            for name, tells in self.tests.items()
        }
        return Ran(answers, self.does(answers), self.busy(answers), self.streams)

    def paths(self, limit: int = 12, quiet_limit: int = 4) -> list[Ran]:
        return [
            *Exploration(
                self.run,
                limit,
                quiet_limit,
                is_busy=lambda ran: ran.busy,
                is_promising=lambda ran: ran.streams > 1,
                is_whole=lambda _: True,
                reach=lambda ran: len(ran.did),
                outcome=lambda ran: ran.did,
            )
        ]


def same(_: dict[str, int]) -> tuple[object, ...]:
    return ()


def always(_: dict[str, int]) -> bool:
    return True


def never(_: dict[str, int]) -> bool:
    return False


def new(answers: dict[str, int]) -> tuple[object, ...]:
    return tuple(answers.items())


def test_a_quiet_path_is_not_run_again_for_arms_that_tell_of_no_stream() -> None:
    program = Program({"verbose": False, "debug": False}, new, busy=never)
    assert len(program.paths()) == 1


def test_it_is_where_there_is_a_second_stream_that_an_arm_may_give_work_to() -> None:
    program = Program({"is_contiguous": False}, new, busy=never, streams=2)
    assert len(program.paths()) == 2


def test_an_arm_that_tells_is_taken_as_long_as_nothing_is_busy() -> None:
    program = Program({"verbose": False, "aside": True}, new, busy=never)
    assert [ran.answers["aside"] for ran in program.paths()] == [0, 1]


def test_what_an_arm_brought_makes_the_other_tests_worth_a_path() -> None:
    program = Program({"verbose": False, "aside": True}, new, busy=lambda answers: answers["aside"] == 1)
    answers = [tuple(ran.answers.values()) for ran in program.paths()]
    assert answers[:2] == [(0, 0), (0, 1)]
    assert sorted(answers) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_tests_that_tell_of_nothing_end_where_they_show_nothing_new() -> None:
    tests = dict.fromkeys(("a", "b", "c", "d", "e"), False)
    assert len(Program(tests, same, busy=always).paths()) == 1 + TRIES_IN_VAIN
    assert len(Program(tests, new, busy=always).paths()) == 12


def test_tests_that_tell_go_on_where_they_show_nothing_new() -> None:
    tests = dict.fromkeys(("a", "b", "c", "d", "e"), True)
    assert len(Program(tests, same, busy=always).paths()) == 1 + len(tests)


def test_one_test_of_code_that_is_not_relevant_is_enough_as_long_as_nothing_is_busy() -> None:
    tests = dict.fromkeys(("a", "b", "c", "d", "e"), True)
    stopped = Program(tests, new, busy=never, relevant=False)
    assert len(stopped.paths()) == 1
    busy = Program(tests, new, busy=always, relevant=False)
    assert len(busy.paths()) == 1 + 4
