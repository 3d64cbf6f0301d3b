"""What ``action.yml`` and the template for GitLab run, as a runner runs it, but for the installation."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.test_tree import RACE

yaml = pytest.importorskip("yaml")

HERE = Path(__file__).parent.parent
ACTION = yaml.safe_load((HERE / "action.yml").read_text(encoding="utf-8"))
TEMPLATE = yaml.safe_load((HERE / "templates" / "streamlint.gitlab-ci.yml").read_text(encoding="utf-8"))
GITHUB = {"github.action_repository": "me/lint", "github.action_ref": "v1"}
NO_WRITER = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
}


@pytest.fixture
def checkout(tmp_path: Path, warm_command: list[str]) -> Path:
    """A repository whose last commit added one of its two races, and beside it the command ``streamlint``."""
    folder = tmp_path / "checkout"
    (folder / "src").mkdir(parents=True)
    (folder / "pyproject.toml").touch()
    git(folder, "init", "-q")
    for name in ("old.py", "new.py"):
        (folder / "src" / name).write_text(RACE)
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", name)
    streamlint = tmp_path / "bin" / "streamlint"
    streamlint.parent.mkdir()
    streamlint.write_text(f'#!/bin/sh\nexec {shlex.join(warm_command)} "$@"\n')
    streamlint.chmod(0o755)
    return folder


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, env={**os.environ, **NO_WRITER})


def shell(folder: Path, script: str, command: list[str], **variables: str) -> int:
    """Run a script where the command ``streamlint`` is this checkout's."""
    known = {
        "GITHUB_SERVER_URL": "https://github.com",
        "PATH": f"{folder.parent / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(HERE),
    }
    ran = subprocess.run(
        [*command, script], cwd=folder, env={**os.environ, **known, **variables}, check=False
    )
    return ran.returncode


def act(folder: Path, **given: str) -> list[dict[str, Any]]:
    """Run the action with some inputs, and return the results that it uploads."""
    inputs = {name: str(each["default"]) for name, each in ACTION["inputs"].items()} | given
    install, check, upload = ACTION["runs"]["steps"]
    assert install["run"] == 'pip install "$GITHUB_ACTION_PATH"'
    assert upload["if"] == "inputs.upload == 'true'"
    known = {f"inputs.{name}": value for name, value in inputs.items()} | GITHUB
    variables = {name: known[value[len("${{ ") : -len(" }}")]] for name, value in check["env"].items()}
    # https://docs.github.com/actions/reference/workflow-syntax: what `shell: bash` stands for
    assert (
        shell(folder, check["run"], ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"], **variables)
        == 0
    )
    document = json.loads((folder / upload["with"]["sarif_file"]).read_text(encoding="utf-8"))
    (run,) = document["runs"]
    assert run["tool"]["driver"]["informationUri"].endswith("/me/lint")
    results: list[dict[str, Any]] = run["results"]
    return results


def files(results: list[dict[str, Any]]) -> list[str]:
    places = (result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results)
    return sorted(set(places))


def test_the_action_uploads_what_is_found(checkout: Path) -> None:
    assert files(act(checkout)) == ["src/new.py", "src/old.py"]
    assert files(act(checkout, paths="src/old.py src/new.py")) == ["src/new.py", "src/old.py"]
    assert files(act(checkout, **{"diff-base": "HEAD~1"})) == ["src/new.py"]
    assert files(act(checkout, **{"diff-base": "origin/"})) == ["src/new.py", "src/old.py"], (
        "a push has no base"
    )
    assert files(act(checkout, **{"min-confidence": "certain"})) in ([], ["src/new.py", "src/old.py"])


def test_an_input_of_the_action_is_no_script(checkout: Path) -> None:
    """What a pull request's branch is called comes from anybody."""
    hostile = "src/old.py $(touch${IFS}broken) ;touch${IFS}broken"
    with pytest.raises(AssertionError):
        act(checkout, paths=hostile)
    with pytest.raises(AssertionError):
        act(checkout, **{"diff-base": "--output=broken; touch broken"})
    assert not (checkout / "broken").exists()


def test_the_template_writes_the_report_that_it_names(checkout: Path) -> None:
    job = TEMPLATE["streamlint"]
    install, check = job["script"]
    assert install == 'pip install "$STREAMLINT_PACKAGE"'
    assert shell(checkout, check, ["sh", "-e", "-c"], **TEMPLATE["variables"]) == 0
    report = json.loads((checkout / job["artifacts"]["reports"]["codequality"]).read_text(encoding="utf-8"))
    assert sorted({each["location"]["path"] for each in report}) == ["src/new.py", "src/old.py"]
