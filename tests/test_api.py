"""streamlint in a program."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import weakref
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import streamlint
from streamlint import Confidence, UserError, check_paths, check_source
from streamlint.run import collector
from tests.cli_support import FakeEngine, finding

if TYPE_CHECKING:
    from collections.abc import Callable

RACE = """\
import torch

def train(x):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    return y + 1
"""


def test_what_runs_leave_does_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A language server begins one with each edit, all day."""

    class Kept:
        itself: Kept

    monkeypatch.setattr(collector, "GROWTH", 1.02)
    left: list[weakref.ref[Kept]] = []
    for _ in range(10):
        with collector.by_hand():
            kept = [Kept() for _ in range(gc.get_freeze_count() // 50)]
            for each in kept:
                each.itself = each
            left.append(weakref.ref(kept[0]))
            kept.clear()
            del each
    assert sum(one() is not None for one in left) < 5


def test_a_text(tmp_path: Path) -> None:
    result = check_source(RACE, tmp_path / "train.py")
    (found,) = result.findings
    assert (found.code, found.primary.line, found.primary.path) == ("SL101", 8, "train.py")
    assert result
    assert not check_source(RACE, tmp_path / "train.py", ignore=["unordered-read"])
    assert not check_source("x = 1\n")
    broken = check_source("def f(:\n", tmp_path / "train.py")
    assert (broken.findings, broken.errors[0].line) == ((), 1)
    assert check_source("# -*- coding: latin-1 -*-\n# é\n" + RACE, tmp_path / "train.py").findings


def test_files_and_what_is_not_saved_yet(tmp_path: Path) -> None:
    (tmp_path / "streamlint.toml").write_text('exclude = ["old/"]\n')
    for name in ("train.py", "old/train.py", "other.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(RACE)
    result = check_paths([tmp_path], texts={tmp_path / "other.py": "x = 1\n"})
    assert [finding.primary.path for finding in result.findings] == ["train.py"]
    assert result.root == tmp_path
    assert check_paths([str(tmp_path / "train.py")], min_confidence=Confidence.CERTAIN).findings == ()
    gone = check_paths([tmp_path / "gone.py"])
    assert gone.errors[0].message == "no such file or folder"


def test_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="`-1` is not a number of processes"):
        check_paths([tmp_path], jobs=-1)
    with pytest.raises(UserError, match=r"gone\.toml"):
        check_paths([tmp_path], config=str(tmp_path / "gone.toml"))
    with pytest.raises(UserError, match="unknown rule or prefix `SL999`"):
        check_paths([tmp_path], select=["SL999"])
    with pytest.raises(AttributeError, match="no attribute 'check_nothing'"):
        _ = streamlint.check_nothing


PAGE = (Path(__file__).parent.parent / "docs" / "api.md").read_text(encoding="utf-8")


def test_the_example_on_the_page_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ((program, shown),) = re.findall(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(program, {})  # noqa: S102
    assert capsys.readouterr().out == shown


def test_the_page_has_every_argument_and_attribute() -> None:
    said = set(re.findall(r"`([a-z_]+)`", PAGE))
    for function in (check_paths, check_source):
        assert set(signature(function).parameters) <= said
    for of in (streamlint.Result, streamlint.Fix, streamlint.Edit, streamlint.Related, streamlint.Span):
        assert {each.name for each in fields(of)} <= said
    types = (streamlint.Finding, streamlint.SourceError)
    missing = {each.name for of in types for each in fields(of)} - said
    assert missing == {"evidence", "follows", "edge", "fork", "at_call"}  # not part of the interface


def test_every_name_is_there_and_costs_nothing_until_it_is_used() -> None:
    assert all(getattr(streamlint, name) is not None for name in streamlint.__all__)
    program = "import streamlint, sys; print(sorted(m for m in sys.modules if m.startswith('streamlint.')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_one_path_and_one_rule_need_no_list(project: Path, engine: FakeEngine) -> None:
    engine.findings = [finding()]
    found = check_paths("train.py", select="SL101,SL102", min_confidence="likely")
    assert ([each.code for each in found.findings], found.errors) == (["SL101"], ())
    assert check_paths(project, min_confidence="certain").findings == ()
    with pytest.raises(UserError, match="`sure` is no confidence"):
        check_paths("train.py", min_confidence="sure")


def test_what_was_stopped_is_no_result(project: Path, engine: FakeEngine) -> None:
    engine.crash = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        check_paths(["train.py"])


@pytest.mark.parametrize(
    "call",
    [
        lambda: check_paths(5),  # type: ignore[arg-type]
        lambda: check_paths(""),
        lambda: check_paths(["."], jobs="2"),  # type: ignore[arg-type]
        lambda: check_paths(["."], select=[5]),  # type: ignore[list-item]
        lambda: check_source(b"x"),  # type: ignore[arg-type]
        lambda: check_source("x", path=5),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_path_and_no_text_is_told(call: Callable[[], object]) -> None:
    with pytest.raises(UserError, match="is not a"):
        call()
