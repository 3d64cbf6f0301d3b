"""The hook, run by the real pre-commit on a repository of its own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
NEEDED = ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml", "streamlint")
CLEAN = """\
import torch

side = torch.cuda.Stream()


def total(x):
    return x.sum()
"""
RACY = """\
import torch


def total():
    side = torch.cuda.Stream()
    x = torch.zeros(1000, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.fill_(2.0)
    return x.sum()
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("pre_commit") is None or shutil.which("git") is None,
        reason="needs git and the pre-commit package",
    ),
]


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def repository(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "--allow-empty", "-m", "start")
    return folder


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository that provides the hook as it stands in the working tree."""
    folder = tmp_path_factory.mktemp("hook")
    for name in NEEDED:
        source = PROJECT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return repository(folder)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return variables that keep pre-commit's environments out of the home folder and apart from ours."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    inherited.pop("PYTHONPATH", None)
    return inherited | {"PRE_COMMIT_HOME": str(tmp_path_factory.mktemp("pre-commit"))}


def run_hook(user: Path, environment: dict[str, str]) -> tuple[int, str]:
    """What is staged; the environment of the hook is made the first time."""
    git(user, "add", ".")
    command = [sys.executable, "-m", "pre_commit", "run", "--verbose", "--color", "never"]
    done = subprocess.run(command, cwd=user, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_hook(tmp_path: Path, hook: Path, environment: dict[str, str]) -> None:
    user = repository(tmp_path / "user")
    (user / ".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: {hook}\n  rev: {git(hook, 'rev-parse', 'HEAD')}\n  hooks:\n  - id: streamlint\n"
    )
    (user / "clean.py").write_text(CLEAN)
    (user / "notes.txt").write_text("not Python\n")
    status, output = run_hook(user, environment)
    assert status == 0, output
    assert "No findings in 1 file," in output

    (user / "racy.py").write_text(RACY)
    status, output = run_hook(user, environment)
    assert status == 1, output
    assert "racy.py:10:" in output
    assert "SL101" in output

    (user / "pyproject.toml").write_text('[tool.streamlint]\nexclude = ["racy.py"]\n')
    status, output = run_hook(user, environment)
    assert status == 0, "what the configuration excludes is excluded in the hook too\n" + output
