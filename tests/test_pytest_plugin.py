"""``pytest --streamlint`` on a CUDA runtime without a GPU: which tests fail, and with what message."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import pytest

from tests.cuda_package import write_package

if TYPE_CHECKING:
    from pathlib import Path

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="code objects have no columns")

TESTS = """\
import pytest
from cuda.bindings import runtime as cudart

D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice

def made(result):
    return result[1]

@pytest.fixture
def lanes():
    flag = cudart.cudaStreamNonBlocking
    return made(cudart.cudaStreamCreateWithFlags(flag)), made(cudart.cudaStreamCreateWithFlags(flag))

@pytest.fixture
def filled(lanes):
    page = made(cudart.cudaMalloc(64))
    cudart.cudaMemsetAsync(page, 7, 64, lanes[0])
    return page

def copied(page, lane):
    other = made(cudart.cudaMalloc(64))
    cudart.cudaMemcpyAsync(other, page, 64, D2D, lane)

def test_race(lanes, filled):
    copied(filled, lanes[1])

def test_order(lanes, filled):
    done = made(cudart.cudaEventCreate())
    cudart.cudaEventRecord(done, lanes[0])
    cudart.cudaStreamWaitEvent(lanes[1], done, 0)
    copied(filled, lanes[1])

def test_nothing_of_the_test_before():
    pass

def test_fails_anyway(lanes, filled):
    copied(filled, lanes[1])
    assert 1 == 2

@pytest.mark.streamlint(known="SL101")
def test_known(lanes, filled):
    copied(filled, lanes[1])

@pytest.mark.streamlint(known=["SL102", "SL103"])
def test_known_for_others(lanes, filled):
    copied(filled, lanes[1])

@pytest.mark.streamlint(observe=False)
def test_not_judged(lanes, filled):
    copied(filled, lanes[1])

def test_asked_for(lanes, filled, streamlint_findings):
    copied(filled, lanes[1])
    assert [finding.code for finding in streamlint_findings()] == ["SL101"]
"""
ALL = "test_race", "test_fails_anyway", "test_known_for_others"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_package(pytester.path)
    pytester.makefile(".toml", pyproject="[tool.pytest.ini_options]\nfilterwarnings = ['error']\n")
    pytester.makepyfile(test_lanes=TESTS)
    monkeypatch.syspath_prepend(str(pytester.path))
    monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=":")
    return pytester.path


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Without the plugins of others, which take as long to load as all else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        return started(pytester, "streamlint.pytest_plugin", *options)


def run_as_installed(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Installed, it is there by its entry point, and must not come twice."""
    installed = any(each.name == "streamlint" for each in entry_points(group="pytest11"))
    return started(pytester, "streamlint" if installed else "streamlint.pytest_plugin", *options)


def started(pytester: pytest.Pytester, plugin: str, *options: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(
        "-p", plugin, "-p", "no:cacheprovider", "-rfE", *options, timeout=120
    )


@pytest.mark.usefixtures("project")
def test_a_race_fails_its_test_with_the_finding_as_message(pytester: pytest.Pytester) -> None:
    result = run_as_installed(pytester, "--streamlint")
    result.assert_outcomes(passed=5, failed=3)
    result.stdout.fnmatch_lines(
        [
            "*_ test_race _*",
            "SL101 [[]certain[]] `page` is read on* while* may still be writing it*",
            "*--> test_lanes.py:*",
            "*|     cudart.cudaMemcpyAsync(other, page, 64, D2D, lane)*",
            "*_ test_fails_anyway _*",
            "*assert 1 == 2",
            "*- Captured streamlint call -*",
            "SL101*",
        ]
    )
    assert all(f"FAILED test_lanes.py::{name}" in result.stdout.str() for name in ALL)


@pytest.mark.usefixtures("project")
def test_without_the_option_nothing_is_observed(pytester: pytest.Pytester) -> None:
    result = run(pytester)
    result.assert_outcomes(passed=6, failed=1, skipped=1)
    result.stdout.no_fnmatch_line("*SL101*")


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    "options",
    [("--streamlint-ignore=SL1",), ("--streamlint-select=SL4",), ("--streamlint-min-confidence=certain",)],
)
def test_findings_that_are_not_wanted_fail_nothing(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    run(pytester, "--streamlint", "-k", "test_race", *options).assert_outcomes(
        passed=int("certain" not in options[0]), failed=int("certain" in options[0])
    )


@pytest.mark.usefixtures("project")
def test_a_code_that_does_not_exist_is_refused(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--streamlint", "--streamlint-ignore=SL999")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--streamlint: *SL999*"])


@pytest.mark.usefixtures("project")
def test_in_workers(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    result = run(pytester, "--streamlint", "-p", "xdist", "-n", "2")
    result.assert_outcomes(passed=5, failed=3)
    assert all(f"FAILED test_lanes.py::{name}" in result.stdout.str() for name in ALL)
