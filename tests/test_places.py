"""Which folder the paths of an output start from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from streamlint.finding import LeftOut, Statistics
from tests.cli_support import SOURCE, FakeEngine, finding, install, run

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    for name in ("src/train.py", "tools/other.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(SOURCE)
    return tmp_path


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    return install(monkeypatch, [finding(path="src/train.py"), finding(path="tools/other.py")])


def places(capsys: Capture, *options: str) -> list[str]:
    out = run(capsys, "..", "--output-format", "concise", *options).out
    return [line.split(":")[0] for line in out.splitlines()]


def test_text_starts_where_the_command_is_run(
    project: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(project / "src")
    other = (project / "tools/other.py").as_posix()
    assert places(capsys) == ["train.py", other]
    assert places(capsys, "--paths-from", "root") == ["src/train.py", "tools/other.py"]
    full = run(capsys, "..").out
    assert " --> train.py:8:8" in full
    assert "loss = model(batch)" in full, "the source is found from there"
    assert f" --> {other}:8:8" in full


def test_other_forms_start_at_the_root(
    project: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(project / "src")

    def paths(*options: str) -> list[str]:
        document = json.loads(run(capsys, "..", "--output-format", "json", *options).out)
        return [each["path"] for each in document["findings"]]

    assert paths() == ["src/train.py", "tools/other.py"]
    assert paths("--paths-from", "here") == ["train.py", (project / "tools/other.py").as_posix()]


def test_what_is_not_a_finding_starts_there_too(
    project: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    engine.findings = []
    engine.statistics = Statistics(cut=1, left_out=(LeftOut("src/train.py", "main", "paths"),))
    monkeypatch.chdir(project / "src")
    result = run(capsys, "train.py", "gone.py", "--statistics")
    assert result.err == "streamlint: error: gone.py: no such file or folder\n"
    assert "  train.py: main: paths left out" in result.out
