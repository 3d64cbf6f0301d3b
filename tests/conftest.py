"""For all tests."""

from __future__ import annotations

import gc
import os
from functools import cache
from typing import TYPE_CHECKING

import pytest

from streamlint.cache import identity
from streamlint.cache.folder import VARIABLE
from streamlint.run import collector
from streamlint.run.session import Session
from tests.cli_support import SOURCE, FakeEngine, install
from tests.warm_start import Warm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from streamlint.cache.snapshot import Snapshot
    from streamlint.finding import Report
    from streamlint.run.results import FileResult

# No test finds what another one left, and none writes into the user's own folder: this is no folder.
os.environ[VARIABLE] = os.devnull

# Hundreds of processes are started. Where Python is told not to keep what it compiles, each of them compiles
# all that it imports, which takes longer than most of these tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A full collection walks over all test modules; after each analysis Python
# takes all that was alive before for new, which makes them frequent. Here they are rare.
gc.set_threshold(*gc.get_threshold()[:2], 1_000)
collector.GROWTH = 2.5


@pytest.fixture(autouse=True, scope="session")
def _analyzer_stays_as_it_is() -> Iterator[None]:
    """Thousands of runs ask whether a file of the analyzer was edited: in one process the first answer holds.

    But for a test that says that the analyzer is somewhere else.
    """
    look, here = identity.look, identity.HERE
    known: list[Snapshot] = []

    def once(earlier: Snapshot) -> Snapshot:
        if here != identity.HERE:
            return look(earlier)
        if not known:
            known.append(look(earlier))
        return known[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identity, "look", once)
        yield


EXPECTED = pytest.StashKey[bool]()


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.session.stash[EXPECTED] = item.get_closest_marker("internal_error") is not None


@pytest.fixture(autouse=True, scope="session")
def _internal_errors_fail_tests(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that wants nothing to be found must not pass because the analyzer broke."""
    analyze = Session.file

    def checked(work: Session, path: Path, only: frozenset[str] | None = None) -> FileResult:
        result = analyze(work, path, only)
        if not request.session.stash[EXPECTED]:
            told = [error.message for error in result.errors if error.message.startswith("internal error")]
            assert told == []
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "file", checked)
        yield


@pytest.fixture(scope="session")
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where is kept what was found in fixtures, for all processes of a run."""
    place = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):  # one of several processes
        place = place.parent
    (place / "kept").mkdir(exist_ok=True)
    return place / "kept"


@pytest.fixture(scope="session")
def analyzed(kept: Path) -> Callable[[Path], Report]:
    """What is found in a fixture. Several tests look at it, and it is analyzed once."""
    from streamlint.run import engine
    from tests.expectations import FIXTURES

    @cache
    def report(file: Path) -> Report:
        # The root is the folder above fixtures: with fixtures as root, its folder torch
        # would be what `import torch` means.
        return engine.analyze(FIXTURES.parent, [file], engine.Settings(evidence=False), cache=kept)

    return report


@pytest.fixture(scope="session")
def warm_command() -> Iterator[list[str]]:
    """What starts ``streamlint`` as another process, without the time that its start takes."""
    with Warm() as warm:
        yield warm.command


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of one file, and in it."""
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "train.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return tmp_path


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """In place of the analysis."""
    return install(monkeypatch)
