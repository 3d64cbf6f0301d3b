"""``--diff-base``: only what lies in changed lines."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from streamlint.errors import UserError
from streamlint.run.changed import changed_since
from tests.cli_support import SOURCE, finding, install, run

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    for name in ("train.py", "other.py"):
        (tmp_path / name).write_text(SOURCE)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "one")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_lines_that_were_added_changed_or_stand_beside_a_gap(project: Path) -> None:
    lines = SOURCE.splitlines(keepends=True)
    (project / "train.py").write_text("# new\n" + "".join(lines[:4]) + lines[4].replace("host", "h"))
    assert changed_since("HEAD", project).lines == {"train.py": frozenset({1, 6})}
    (project / "train.py").write_text("".join(lines[:3] + lines[5:]))
    assert changed_since("HEAD", project).lines == {"train.py": frozenset({3, 4})}


def test_a_place_of_a_finding_in_a_changed_line_is_enough(project: Path) -> None:
    text = (project / "train.py").read_text()
    (project / "train.py").write_text(text.replace("non_blocking=True", "non_blocking=False"))
    changed = changed_since("main", project)
    assert changed.touches(finding()), "its earlier place is the copy"
    assert not changed.touches(finding(related=()))
    assert not changed.touches(finding(path="other.py", related=()))


def test_since_the_histories_parted_and_what_is_not_committed(project: Path) -> None:
    git(project, "checkout", "-q", "-b", "branch")
    (project / "train.py").write_text(SOURCE + "x = 1\n")
    git(project, "commit", "-q", "-a", "-m", "two")
    git(project, "checkout", "-q", "main")
    (project / "other.py").write_text("# on main\n" + SOURCE)
    git(project, "commit", "-q", "-a", "-m", "three")
    git(project, "checkout", "-q", "branch")
    (project / "new file.py").write_text(SOURCE)
    assert changed_since("main", project).lines == {"train.py": frozenset({10}), "new file.py": None}


def test_paths_start_at_the_root_of_the_project_also_below_the_repository(project: Path) -> None:
    inner = project / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text("")
    (inner / 'a "b".py').write_text("x = 1\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "two")
    (inner / 'a "b".py').write_text("x = 2\n--- y\n+++ z\n")
    (project / "train.py").write_text("x = 1\n")
    assert changed_since("HEAD", inner).lines == {'a "b".py': frozenset({1, 2, 3})}


@pytest.mark.parametrize(
    ("revision", "said"), [("--output=x", "is not a revision"), ("gone", "git merge-base failed")]
)
def test_what_is_no_revision_is_said(project: Path, revision: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        changed_since(revision, project)
    assert not (project / "x").exists()


def test_the_command_counts_what_it_hides(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    install(monkeypatch, [finding(), finding(path="other.py", related=())])
    (project / "train.py").write_text(SOURCE.replace("loss = model(batch)", "loss = model(batch) + 1"))
    result = run(capsys, ".", "--diff-base", "HEAD")
    assert result.status == 1
    assert "train.py:8:8" in result.out
    assert "other.py" not in result.out
    assert "1 finding hidden: no place of them is in a changed line." in result.out
