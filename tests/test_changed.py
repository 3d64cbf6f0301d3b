"""``--diff-base``: only what lies in changed lines."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from streamlint.errors import UserError
from streamlint.run import changed
from streamlint.run.changed import changed_since
from tests.cli_support import SOURCE, finding, install, run

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


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
    assert changed_since("HEAD", project).lines == {"train.py": [range(1, 2), range(6, 7)]}
    (project / "train.py").write_text("".join(lines[:3] + lines[5:]))
    assert changed_since("HEAD", project).lines == {"train.py": [range(3, 5)]}


def test_lines_are_kept_by_their_ends(project: Path) -> None:
    """A data file of 60 million lines took 4 GB, and so did a hundred files of two million lines."""
    (project / "other.py").write_text(SOURCE + "\n" * 100_000)
    (project / "train.py").write_text("x = 1\n" + SOURCE)
    end = SOURCE.count("\n") + 1
    assert changed_since("HEAD", project).lines == {
        "other.py": [range(end, end + 100_000)],
        "train.py": [range(1, 2)],
    }


def test_of_many_stretches_all_lines_count(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each other line of a thousand files."""
    monkeypatch.setattr(changed, "MOST_HUNKS", 3)
    for name in ("a.py", "b.py"):
        (project / name).write_text("1\n2\n3\n4\n")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "two")
    for name in ("a.py", "b.py"):
        (project / name).write_text("x\n2\ny\n4\n")
    assert changed_since("HEAD", project).lines == {"a.py": [range(1, 2), range(3, 4)], "b.py": None}


def test_each_other_line_of_a_file_takes_no_time(project: Path) -> None:
    """The lines were gathered anew with each of 60,000 hunks."""
    (project / "other.py").write_text("".join(f"x = {number}\n" for number in range(120_000)))
    git(project, "commit", "-q", "-a", "-m", "two")
    text = "".join(f"{'xy'[number % 2]} = {number}\n" for number in range(120_000))
    (project / "other.py").write_text(text)
    start = time.process_time()
    assert changed_since("HEAD", project).lines == {
        "other.py": [range(line, line + 1) for line in range(2, 120_001, 2)]
    }
    assert time.process_time() - start < 3


def test_of_a_file_with_another_name_only_what_differs_is_new(project: Path) -> None:
    git(project, "mv", "train.py", "fit.py")
    (project / "fit.py").write_text(SOURCE + "x = 1\n")
    git(project, "mv", "other.py", "moved.py")
    end = SOURCE.count("\n") + 1
    assert changed_since("HEAD", project).lines == {"fit.py": [range(end, end + 1)]}


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
    assert changed_since("main", project).lines == {"train.py": [range(10, 11)], "new file.py": None}


def test_paths_start_at_the_root_of_the_project_also_below_the_repository(project: Path) -> None:
    inner = project / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text("")
    (inner / 'a "b".py').write_text("x = 1\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "two")
    (inner / 'a "b".py').write_text("x = 2\n--- y\n+++ z\n")
    (project / "train.py").write_text("x = 1\n")
    assert changed_since("HEAD", inner).lines == {'a "b".py': [range(1, 4)]}


@pytest.mark.parametrize(
    ("revision", "said"),
    [("--output=x", "is not a revision"), ("gone", "git merge-base failed"), ("a\0", "null byte")],
)
def test_what_is_no_revision_is_said(project: Path, revision: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        changed_since(revision, project)
    assert not (project / "x").exists()


COMMANDS = """
core.fsmonitor core.sshCommand core.pager core.editor core.askPass diff.external credential.helper
filter.x.clean filter.x.smudge filter.x.process filter.X.clean diff.x.textconv diff.x.command alias.diff
""".split()


def test_no_command_of_the_repository_runs(project: Path) -> None:
    """Nor of one inside of it; nor one that would fetch what is missing."""
    mark = project.parent / "mark"
    inner = project / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "a.py").write_text("x = 1\n")
    git(inner, "add", "-A")
    git(inner, "commit", "-q", "-m", "one")
    git(inner, "config", "core.fsmonitor", f"echo inner >> {mark}")
    git(project, "add", "inner")
    for command in COMMANDS:
        git(project, "config", command, f"echo {command} >> {mark}; cat")
    git(project, "config", "filter.x.required", "true")
    (project / ".git" / "hooks").mkdir(exist_ok=True)
    for hook in ("post-index-change", "fsmonitor-watchman", "pre-auto-gc"):
        (project / ".git" / "hooks" / hook).write_text(f"#!/bin/sh\necho {hook} >> {mark}\n")
        (project / ".git" / "hooks" / hook).chmod(0o755)
    (project / ".gitattributes").write_text("train.py filter=x diff=x\nother.py filter=X\n")
    mark.unlink(missing_ok=True)
    (project / "train.py").write_text(SOURCE + "x = 1\n")
    os.utime(project / "other.py", (1, 1))
    assert changed_since("HEAD", project).lines["train.py"] == [range(10, 11)]
    assert not mark.exists(), mark.read_text()
    head = git(project, "rev-parse", "HEAD:train.py")
    (project / ".git" / "objects" / head[:2] / head[2:]).unlink()
    upload = ("remote.origin.uploadpack", f"echo fetched >> {mark}; git-upload-pack")
    for name, value in (
        *(("remote.origin.url", str(project)), ("remote.origin.promisor", "true"), upload),
        *(("extensions.partialClone", "origin"), ("core.repositoryFormatVersion", "1")),
    ):
        git(project, "config", name, value)
    with pytest.raises(UserError, match="git diff failed"):
        changed_since("HEAD", project)
    assert not mark.exists(), mark.read_text()


def test_a_filter_that_cannot_be_left_out(project: Path) -> None:
    git(project, "config", "filter.a=b.clean", "false")
    with pytest.raises(UserError, match=r"a filter with `=` in its name: `filter\.a=b`"):
        changed_since("HEAD", project)


def test_git_is_not_waited_for_without_end(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed, "PATIENCE", 0.5)
    os.mkfifo(project / "excluded")
    git(project, "config", "core.excludesFile", str(project / "excluded"))
    with pytest.raises(UserError, match="was not done after"):
        changed_since("HEAD", project)


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
