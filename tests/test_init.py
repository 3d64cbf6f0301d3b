"""``streamlint init``."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from streamlint.settings.config import load
from tests.cli_support import run

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]


def test_an_empty_project_gets_both(tmp_path: Path, capsys: Capture) -> None:
    result = run(capsys, "init", tmp_path)
    assert (result.status, result.err) == (0, "")
    assert load(tmp_path).path == tmp_path / "streamlint.toml"
    assert load(tmp_path).jobs == 0
    hooks = (tmp_path / ".pre-commit-config.yaml").read_text()
    assert hooks.startswith("repos:\n  - repo: local\n    hooks:\n      - id: streamlint\n")
    checked = subprocess.run(
        [sys.executable, "-m", "pre_commit", "validate-config", ".pre-commit-config.yaml"],
        cwd=tmp_path,
        check=False,
    )
    assert checked.returncode == 0


@pytest.mark.parametrize("text", ["", "[project]\nname = 'x'", "[tool.ruff]\nline-length = 100\n"])
def test_a_table_is_added_behind_what_is_there(tmp_path: Path, capsys: Capture, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert "[tool.streamlint] added" in run(capsys, "init", tmp_path).out
    written = (tmp_path / "pyproject.toml").read_text()
    assert written.startswith(text)
    assert load(tmp_path).jobs == 0


def test_what_is_there_stays(tmp_path: Path, capsys: Capture) -> None:
    project = "tool.streamlint.jobs = 3\n"
    (tmp_path / "pyproject.toml").write_text(project)
    (tmp_path / ".pre-commit-config.yaml").write_text("repos: []  # mine\n")
    result = run(capsys, "init", tmp_path)
    assert result.status == 0
    assert "left as it is; write this in the place of `repos: []`\n\nrepos:\n  - repo: local" in result.out
    assert "entry: streamlint check" in result.out
    assert (tmp_path / "pyproject.toml").read_text() == project
    assert (tmp_path / ".pre-commit-config.yaml").read_text() == "repos: []  # mine\n"
    run(capsys, "init", tmp_path)
    assert (tmp_path / "pyproject.toml").read_text() == project


def test_a_broken_configuration_is_said_and_nothing_written(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool")
    result = run(capsys, "init", tmp_path)
    assert result.status == 2
    assert "pyproject.toml:1: not valid TOML" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["pyproject.toml"]
    assert run(capsys, "init", tmp_path / "gone").err.endswith("gone is not a folder\n")


@pytest.mark.parametrize("name", ["streamlint.toml", "pyproject.toml", ".pre-commit-config.yaml"])
@pytest.mark.parametrize("there", [True, False])
def test_no_link_leads_out_of_the_project(tmp_path: Path, capsys: Capture, name: str, there: bool) -> None:
    """Whoever tries this on a tree of somebody else must not have a file of his own written."""
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    if there:
        other.write_text("")
    (project / name).symlink_to(other)
    result = run(capsys, "init", project)
    assert (result.status, "a link that leads out of" in result.err) == (2, True)
    assert other.exists() == there
    assert not there or other.read_text() == ""
    assert [path.name for path in project.iterdir()] == [name], "nothing was written"


def test_a_link_within_the_project_stays_one(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "kept.toml").write_text("[project]\n")
    (tmp_path / "pyproject.toml").symlink_to("kept.toml")
    assert run(capsys, "init", tmp_path).status == 0
    assert (tmp_path / "pyproject.toml").is_symlink()
    assert "[tool.streamlint]" in (tmp_path / "kept.toml").read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "it has no `repos:`"),
        ("# repos:\n", "it has no `repos:`"),
        ("repos:\n\t- repo: streamlint\n", "config.yaml:2: left as it is; a tab indents it"),
        ("repos:  # no streamlint yet\n", "add this under `repos:`"),
        ("repos: [{repo: meta}]\n", "write its list without brackets, and this under `repos:`"),
        ("repos:\n  - id: streamlint\n", "left as it is\n"),
    ],
)
def test_a_hook_file_that_is_none_is_told(tmp_path: Path, capsys: Capture, text: str, said: str) -> None:
    (tmp_path / ".pre-commit-config.yaml").write_text(text)
    assert said in run(capsys, "init", tmp_path).out
    assert (tmp_path / ".pre-commit-config.yaml").read_text() == text


def test_a_broken_hook_file_is_said_and_nothing_written(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / ".pre-commit-config.yaml").write_text("# mine\nrepos: [\n")
    result = run(capsys, "init", tmp_path)
    assert (result.status, "config.yaml:2: the bracket of `repos: [` is not closed" in result.err) == (
        2,
        True,
    )
    assert [path.name for path in tmp_path.iterdir()] == [".pre-commit-config.yaml"]
