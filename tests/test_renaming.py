"""Names that a program chose itself tell nothing: with others the findings are the same."""

from __future__ import annotations

import ast
import os
import zlib
from typing import TYPE_CHECKING

import pytest

from streamlint.run import engine
from tests.expectations import FIXTURES, fixture_files
from tests.renaming import renamed

if TYPE_CHECKING:
    from pathlib import Path

ALL = "STREAMLINT_RENAME_ALL"
"""Set in the environment, it takes all fixtures; otherwise each fifth, and those with known differences."""

_LOOKS_ENTERED = (
    "whether a method enters a stream is told by the names that it uses, and `self.stream` looks like "
    "`torch.cuda.stream`: what it waits for is then not what a method of another class leaves open"
)
KNOWN = {
    "torch/sl101_decorators.py": _LOOKS_ENTERED,
    "torch/sl101_results.py": _LOOKS_ENTERED,
}
"""Fixtures whose findings change with the names, and why: what is known to be open."""

FILES = {file.relative_to(FIXTURES).as_posix(): file for file in fixture_files()}
CHOSEN = [name for number, name in enumerate(FILES) if ALL in os.environ or number % 5 == 0 or name in KNOWN]


def found(root: Path, name: str, source: str) -> list[tuple[str, int, str]]:
    """Code, line and confidence of each finding."""
    # The fixture lies where it does in the project: with its folder as root, torch/ would be `import torch`.
    file = root / "fixtures" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source, encoding="utf-8")
    report = engine.analyze(root, [file], engine.Settings())
    assert not report.errors
    return sorted((one.code, one.primary.line, one.confidence.name) for one in report.findings)


@pytest.mark.parametrize("name", CHOSEN)
def test_other_names_give_the_same_findings(name: str, tmp_path: Path) -> None:
    source = FILES[name].read_text(encoding="utf-8")
    before = found(tmp_path / "own", name, source)
    other = renamed(source, zlib.crc32(name.encode()))
    after = found(tmp_path / "other", name, other)
    if name in KNOWN:
        assert before != after, f"{name} does not depend on its names any more"
    else:
        assert after == before


PROGRAM = """\
import torch

class Part:
    def __init__(self, stream, size):
        self.stream = stream
        self._size = size

    def run(self, x):
        with torch.cuda.stream(self.stream):
            return x * self._size

def drive():
    part = Part(torch.cuda.Stream(), size=2)
    return part.run(torch.ones(8, device="cuda")).stream
"""


def test_only_names_of_the_program_change() -> None:
    other = renamed(PROGRAM, 1)
    assert other.count("\n") == PROGRAM.count("\n"), "lines stay"
    tree = ast.parse(other)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert {"Part", "drive", "part", "self", "x"}.isdisjoint(names)
    assert {"torch", "size"} <= names, "a library, and a parameter that is given by its name"
    assert {"cuda", "stream", "Stream", "ones"} <= attributes, "attributes of the library"
    assert "_size" not in attributes
    assert other == renamed(PROGRAM, 1) != renamed(PROGRAM, 2)
