"""What the process of an editor keeps between edits changes no finding."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamlint import check_source
from streamlint.run.results import Settings
from streamlint.run.session import Session
from streamlint.run.tree import Tree
from streamlint.run.warm import Warm
from streamlint.server.analysis import Analysis, Answer, Question

if TYPE_CHECKING:
    from streamlint.finding import Finding
    from streamlint.run.first import Whole

FIXTURES = Path(__file__).parent.parent / "fixtures"


def test_edits_give_what_a_fresh_check_gives(tmp_path: Path) -> None:
    """Lines are taken out, doubled and swapped, one edit after the other, and the tree grows by a file."""
    chance = random.Random(7)  # noqa: S311  (no secret)
    analysis = started(tmp_path)
    path = tmp_path / "edited.py"
    lines = (FIXTURES / "torch/sl101_unordered_read.py").read_text().split("\n")[:120]
    for _ in range(12):
        at = chance.randrange(len(lines))
        lines = chance.choice(
            [
                [*lines[:at], *lines[at + 1 :]],
                [*lines[:at], lines[at], *lines[at:]],
                [*lines[:at], *reversed(lines[at : at + 2]), *lines[at + 2 :]],
            ]
        )
        text = "\n".join(lines)
        answer = asked(analysis, path, text, is_typed=True)
        fresh = check_source(text, path)
        assert (answer.findings, answer.errors) == (fresh.findings, fresh.errors)


def test_what_comes_first_is_what_the_whole_file_gives(tmp_path: Path) -> None:
    """A line of a function goes, or one comes, and the lines below move."""
    text = (FIXTURES / "torch/sl101_unordered_read.py").read_text()
    path = tmp_path / "edited.py"
    whole, first = started(tmp_path), started(tmp_path)
    last = asked(whole, path, text).whole
    assert last is not None
    lines = text.split("\n")
    rows = [row for row, line in enumerate(lines) if ".wait_stream(" in line or "# error:" in line][:4]
    for row in rows:
        indent = lines[row][: -len(lines[row].lstrip())]
        nothing = [*lines[:row], f"{indent}pass", *lines[row + 1 :]]
        for edited in (nothing, [*lines[:row], f"{indent}edited = 7", *lines[row:]]):
            now = "\n".join(edited)
            answer = asked(first, path, now, last, is_typed=True)
            assert not answer.is_nothing
            assert told(answer.findings) == told(asked(whole, path, now).findings)


def test_an_edit_outside_of_functions_waits_for_the_whole_file(tmp_path: Path) -> None:
    text = (FIXTURES / "torch/sl101_unordered_read.py").read_text()
    analysis = started(tmp_path)
    last = asked(analysis, tmp_path / "edited.py", text).whole
    assert asked(analysis, tmp_path / "edited.py", f"import os\n{text}", last).is_nothing
    assert asked(analysis, tmp_path / "edited.py", f"{text}(", last).is_nothing


@pytest.mark.parametrize("is_typed", [True, False])
def test_a_file_that_appears_is_seen_when_one_is_saved(tmp_path: Path, *, is_typed: bool) -> None:
    (tmp_path / "pyproject.toml").touch()
    analysis = started(tmp_path)
    path = tmp_path / "user.py"
    text = """\
import torch
from lanes import SIDE

def train(x):
    with torch.cuda.stream(SIDE):
        y = x * 2
    return y + 1
"""
    before = asked(analysis, path, text)
    (tmp_path / "lanes.py").write_text("import torch\n\nSIDE = torch.cuda.Stream()\n")
    after = asked(analysis, path, text, is_typed=is_typed)
    assert (told(after.findings) == told(before.findings)) is is_typed


def started(folder: Path) -> Analysis:
    analysis = Analysis(folder)
    analysis.start()
    return analysis


def asked(
    analysis: Analysis, path: Path, text: str, last: Whole | None = None, *, is_typed: bool = False
) -> Answer:
    return analysis.do(Question((), {path: text.encode()}, (path,), is_typed, last))


def told(findings: tuple[Finding, ...]) -> set[tuple[object, ...]]:
    """All but the fixes, which come with the whole file."""
    return {(each.pair, each.message, each.confidence, each.related, each.fingerprint) for each in findings}


@pytest.mark.parametrize(("word", "ask"), [("f(1)", "calling"), ("x.f = 1", "storing")])
def test_what_all_files_are_asked_is_known_of_those_on_the_disk(tmp_path: Path, word: str, ask: str) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text(f"{word}\n")
    other.write_text("g(1)\n")
    warm = Warm()

    def found(opened: dict[Path, bytes]) -> tuple[str, ...]:
        files = (one, other)
        tree = Tree(tmp_path, files, opened, warm=warm)
        project = Session(tmp_path, files, Settings(), opened, tree=tree).project
        modules: tuple[str, ...] = getattr(project, ask)("f")
        return modules

    text = word.encode()
    assert found({}) == ("one",)
    assert found({one: b"g(1)\n"}) == ()
    assert found({one: text + b"\n\n", other: text}) == ("one", "other")
    assert found({other: text + b" "}) == ("one", "other")
    other.write_text(f"{word}\n")
    warm.forget_disk()
    assert found({}) == ("one", "other")
