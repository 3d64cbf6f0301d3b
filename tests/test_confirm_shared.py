"""Runs of a whole program that several findings share. No GPU."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Any

from streamlint.confirm.inside.probe import Mode
from streamlint.confirm.inside.turns import Stop
from streamlint.confirm.run.program import Program
from streamlint.confirm.run.seen import Seen
from streamlint.confirm.verdict import Verdict
from tests.confirm_program_support import WORK, Workshop, workshop

if TYPE_CHECKING:
    import pytest

    from streamlint.confirm.inside.values import Snapshot

__all__ = ["workshop"]


def test_findings_share_the_runs_that_are_serialized(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reference, one run with all delays, and for each finding the one in which it may race."""
    script = workshop.write(
        "several.py",
        WORK
        + textwrap.dedent("""\

        def first(p, q, a, b):
            fakegpu.copy(p, fakegpu.Array(3), stream=a)
            fakegpu.copy(q, p, stream=b)

        def second(z, w, a, b):
            fakegpu.copy(z, fakegpu.Array(5), stream=a)
            fakegpu.copy(w, z, stream=b)

        for one in (first, second):
            one(fakegpu.Array(0), fakegpu.Array(0), fakegpu.Stream(), fakegpu.Stream())
            fakegpu.synchronize()
        """),
    )
    plans = [
        workshop.plan("several.py", "copy(p", "copy(q"),
        workshop.plan("several.py", "copy(z", "copy(w"),
    ]
    modes = _modes_run(monkeypatch)
    done = workshop.confirm(sys.executable, str(script), plans=plans)
    assert [c.decision.verdict for c in done] == [Verdict.CONFIRMED] * 2, done
    shown = [c.decision.difference for c in done]
    assert [(d.reference, d.gated) for d in shown if d is not None] == [("3", "0"), ("5", "0")]
    assert modes == [Mode.REFERENCE, Mode.GATED, Mode.GATED, Mode.CONTROL]


def _modes_run(monkeypatch: pytest.MonkeyPatch) -> list[Mode]:
    """The modes of the runs that will be made."""
    made: list[Mode] = []
    run = Program._run

    def counted(program: Program, mode: Mode, *arguments: Any) -> Any:  # noqa: ANN401
        made.append(mode)
        return run(program, mode, *arguments)

    monkeypatch.setattr(Program, "_run", counted)
    return made


def test_delays_of_one_finding_that_another_does_not_bear_are_made_apart(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The serialized run of both differs from the reference for one of them: it is asked for its own."""
    controls = []

    def run(_: Program, mode: Mode, held: Any = (), *_rest: Any) -> Seen:  # noqa: ANN401
        values = ["7", "7"]
        if mode is Mode.GATED:
            for number, _turn in held:
                values[number] = "0"
        elif mode is Mode.CONTROL:
            controls.append(held)
            values[1] = "7" if len(held) == 1 else "9"
        seen = Seen(ended=0, started=True, reached={0: 1, 1: 1}, begun=[*held], held={n for n, _ in held})
        for number, value in enumerate(values):
            shown: Snapshot = ((f"y{number}", value),)
            seen.parts[number, 0, Stop.MATCHING] = [("", shown)]
        return seen

    monkeypatch.setattr(Program, "_run", run)
    done = workshop.confirm("none", plans=[workshop.plan(), workshop.plan()])
    assert [c.decision.verdict for c in done] == [Verdict.CONFIRMED] * 2
    assert controls == [[(0, 0), (1, 0)], [(1, 0)]]
