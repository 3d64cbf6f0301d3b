"""Runs of functions on a GPU made of lists, in forks of the test's own process."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from streamlint.confirm.inside import child
from streamlint.confirm.inside.forks import Forks
from streamlint.confirm.plan.plans import Plan
from streamlint.confirm.run.runner import confirm_all
from streamlint.confirm.run.server import Limits, Server
from streamlint.confirm.text.instrument import Place
from tests.confirm_support import Device, library

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from streamlint.confirm.run.runner import Confirmation


def serve(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program, and a server that forks this very process, with the fake GPU in it."""
    path = folder / "program.py"
    path.write_text(text, "utf-8")
    runs = folder / "runs"

    def count() -> int:
        with runs.open("a") as file:
            file.write("x")
        return runs.stat().st_size

    device = Device()
    monkeypatch.setitem(sys.modules, "fakegpu", library(device, count))
    monkeypatch.setattr(child, "Driver", lambda: device)
    forks = Forks()
    monkeypatch.setattr(Server, "_ask", lambda _self, line: json.dumps(forks.answer(json.loads(line))))
    return path


def confirm(
    program: Path, function: str, line_of: str, *, later: str = "", shared: bool = False
) -> Confirmation:
    plan = Plan(
        program,
        program.parent,
        function,
        place(program, function, line_of),
        place(program, function, later) if later else None,
    )
    (done,) = confirm_all([plan], Limits(timeout_s=5, shared=shared))
    return done


def place(program: Path, function: str, text: str) -> Place:
    lines = program.read_text("utf-8").splitlines()
    start = lines.index(f"def {function}():") + 1
    return Place(next(i for i in range(start, len(lines)) if text in lines[i]) + 1)
