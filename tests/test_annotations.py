"""What annotations show to be no memory is taken for none: numbers, enums, objects of plain fields only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.run import engine
from tests.test_tree import written

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """\
import enum
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from elsewhere import lookup, transform

class Mode(enum.Enum):
    FAST = 1

class Kind(str, Mode):
    pass

@dataclass
class Options:
    mode: Mode
    sizes: list[int]
    name: str | None = None

@dataclass
class Grown(Options):
    more: tuple[float, ...] = ()

class Batch(NamedTuple):
    values: torch.Tensor
    rows: int

class Kept:
    rows: int

    def fill(self, x):
        self.x = lookup(x)

def width(x) -> int:
    return lookup(x)

def length(x: torch.Tensor):
    n: int = lookup(x)
    return n

def values(x) -> torch.Tensor:
    return lookup(x)

class Runner:
    def __init__(self):
        self.lane = torch.cuda.Stream()

    def run(self, {parameter}, x: torch.Tensor):
        given = {given}
        with torch.cuda.stream(self.lane):
            return transform(given)
"""


def found(root: Path, parameter: str, given: str) -> bool:
    source = SOURCE.format(parameter=parameter, given=given)
    report = engine.analyze(root, written(root, {"run.py": source}), engine.Settings())
    return any(one.function == "Runner.run" for one in report.findings)


@pytest.mark.parametrize(
    "annotation",
    [
        "Mode",
        "Kind",
        "Options",
        "Grown",
        "Options | None",
        "'Options'",
        "list[Mode]",
        "dict[str, float]",
        "Literal['a']",
    ],
)
def test_what_holds_no_memory(tmp_path: Path, annotation: str) -> None:
    assert not found(tmp_path, f"p: {annotation}", "p")


@pytest.mark.parametrize("annotation", ["Batch", "Kept", "Unknown", "list", "tuple[int, torch.Tensor]"])
def test_what_may_hold_memory(tmp_path: Path, annotation: str) -> None:
    assert found(tmp_path, f"p: {annotation}", "p")


@pytest.mark.parametrize(
    ("given", "expected"),
    [("width(x)", False), ("length(x)", False), ("values(x)", True), ("lookup(x)", True)],
)
def test_what_functions_and_variables_are_annotated_with(
    tmp_path: Path, given: str, *, expected: bool
) -> None:
    assert found(tmp_path, "p", given) is expected
