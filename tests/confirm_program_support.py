"""Programs that see the fake GPU, in a folder of their own."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamlint.confirm.plan.plans import Plan
from streamlint.confirm.run.program import Program, cases_of
from streamlint.confirm.run.server import Limits
from streamlint.confirm.text.instrument import Place
from streamlint.witness import ByValue, Witness
from tests.confirm_support import SITECUSTOMIZE

if TYPE_CHECKING:
    from streamlint.confirm.run.runner import Confirmation

REPOSITORY = Path(__file__).parents[1]

WORK = """\
import fakegpu

def produce(x, stream):
    fakegpu.copy(x, fakegpu.Array(7), stream=stream)

def consume(y, x, stream):
    fakegpu.copy(y, x, stream=stream)

def step(ordered):
    a, b = fakegpu.Stream(), fakegpu.Stream()
    x, y = fakegpu.Array(0), fakegpu.Array(0)
    produce(x, a)
    if ordered:
        fakegpu.wait(b, a)
    consume(y, x, b)
    fakegpu.synchronize()
    return y[0]
"""


class Workshop:
    """A folder with programs that see the fake GPU."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "site").mkdir()
        (folder / "site" / "sitecustomize.py").write_text(SITECUSTOMIZE, "utf-8")
        self.write("work.py", WORK)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(textwrap.dedent(text), "utf-8")
        return path

    def line(self, name: str, text: str) -> int:
        lines = (self.folder / name).read_text("utf-8").splitlines()
        return next(number for number, one in enumerate(lines, 1) if text in one)

    def plan(
        self,
        name: str = "work.py",
        earlier: str | None = "fakegpu.copy(x",
        later: str = "fakegpu.copy(y",
        witness: Witness = ByValue(),  # noqa: B008 frozen
    ) -> Plan:
        held = None if earlier is None else Place(self.line(name, earlier))
        watched = Place(self.line(name, later))
        return Plan(self.folder / name, self.folder, "", held, watched, "SL101", name, witness=witness)

    def confirm(
        self, *command: str, plans: list[Plan] | None = None, timeout_s: float = 60
    ) -> list[Confirmation]:
        cases = cases_of(plans or [self.plan()])
        return Program(command, cases, Limits(delay_ms=50, timeout_s=timeout_s)).confirm(print)


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    made = Workshop(tmp_path)
    monkeypatch.chdir(tmp_path)
    path = os.pathsep.join([str(tmp_path / "site"), str(REPOSITORY)])
    monkeypatch.setenv("PYTHONPATH", path)
    return made
