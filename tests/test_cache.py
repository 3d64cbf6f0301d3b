"""With what earlier runs found, a run gives the same as without."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamlint import files
from streamlint.cache import identity, snapshot
from streamlint.cache.store import NAME
from streamlint.files import read_source
from streamlint.parsing import MAX_BYTES
from streamlint.run import engine, session
from streamlint.run.results import FileResult, Settings
from streamlint.run.session import Session
from tests.cli_support import run
from tests.test_tree import written

if TYPE_CHECKING:
    from streamlint.finding import Report

HERE = Path(__file__).parent.parent
PLAIN = Settings(evidence=False)
Done = list[str]

RACY = """\
import torch
from helper import prepared

class Loader:
    def __init__(self):
        self.side = torch.cuda.Stream()

    def load(self, batch: torch.Tensor):
        with torch.cuda.stream(self.side):
            out = prepared(batch) + 1
        return out.sum()
"""
HELPER = "def prepared(x):\n    return x * 2\n"
TWO = """\
def prepared(x):
    return x * 2

def counted(count):
    total = count * 2
    return total
"""
WAITING = """\
import torch

def prepared(x):
    torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
    return x
"""
LONE = """\
import torch

def alone():
    side = torch.cuda.Stream()
    x = torch.ones(4, device="cuda")
    with torch.cuda.stream(side):
        y = x * 2
    return y.sum()
"""


def noted(monkeypatch: pytest.MonkeyPatch) -> Done:
    """The files that the analyzer is asked about, by name."""
    done: Done = []
    collected = session.collected

    def asked(work: Session, path: Path) -> FileResult:
        done.append(path.name)
        return collected(work, path)

    monkeypatch.setattr(session, "collected", asked)
    return done


@pytest.fixture
def analyzed(monkeypatch: pytest.MonkeyPatch) -> Done:
    return noted(monkeypatch)


def tree(root: Path) -> tuple[Path, ...]:
    return tuple(sorted(root.rglob("*.py")))


def report(root: Path, cache: Path | None, focus: tuple[Path, ...] | None = None) -> Report:
    return engine.analyze(root, tree(root), PLAIN, focus, cache=cache)


def project(tmp_path: Path) -> tuple[Path, Path]:
    root = tmp_path / "tree"
    written(root, {"racy.py": RACY, "helper.py": HELPER, "lone.py": LONE})
    return root, tmp_path / "cache"


# ----------------------------------------------------------------------------- the same bytes


# What fixtures give: tests/test_same_bytes.py, tests/test_fixtures.py

TEXTS = {
    "helper.py": (
        HELPER,
        WAITING,
        HELPER.replace("x * 2", "x"),
        TWO,
        TWO.replace("count * 2", "count * 3"),
        "# moved\n" + TWO,
        TWO.replace("x * 2", "x.sum().item()"),
        "from package.inner import prepared\n",
        "import torch\nprepared = torch.relu\n",
        "def prepared(x:\n",
    ),
    "racy.py": (RACY, RACY.replace("out.sum()", "out"), "\n\n" + RACY, LONE),
    "package/__init__.py": ("", "from package.inner import prepared\n"),
    "package/inner.py": (HELPER, WAITING, "from helper import *\n"),
    "inner.py": (WAITING,),
    "user.py": (
        "import torch\nfrom racy import Loader\n\ndef use(x):\n    return Loader().load(x)\n",
        "import torch\n\ndef use(loader: 'Loader', x):\n    y = loader.load(x)\n"
        "    torch.cuda.current_stream().wait_stream(loader.side)\n    return y.sum()\n",
        "import torch\nimport racy\n\ndef use(meter, x):\n    meter.side = torch.cuda.Stream()\n"
        "    with torch.cuda.stream(meter.side):\n        y = x * 2\n    return y.sum()\n",
    ),
    "given.py": (
        "import torch\n\nclass Meter:\n    def __init__(self):\n        self.side = None\n\n"
        "    def load(self, x: torch.Tensor):\n        with torch.cuda.stream(self.side):\n"
        "            y = x * 2\n        return y.sum()\n\n\ndef measure(loader, x):\n"
        "    y = loader.load(x)\n    return y.sum()\n",
    ),
    "calls.py": (
        "from given import measure\nfrom racy import Loader\n\ndef go(x):\n    return measure(Loader(), x)\n",
    ),
}
edits = st.lists(
    st.sampled_from([(path, text) for path, texts in TEXTS.items() for text in (*texts, None)]),
    min_size=2,
    max_size=8,
)


@pytest.mark.slow
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    print_blob=True,
)
@given(edits)
def test_edits_of_a_tree_give_what_they_give_without(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, str | None]]
) -> None:
    root, cache = project(tmp_path_factory.mktemp("edited"))
    for path, text in [("racy.py", RACY), *changes]:
        file = root / path
        if text is None:
            file.unlink(missing_ok=True)
        else:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        without = report(root, None)
        assert report(root, cache) == without
        assert report(root, cache) == without, "and once more"


# ----------------------------------------------------------------------------- what is done again


def test_nothing_is_done_again_where_nothing_has_changed(tmp_path: Path, analyzed: Done) -> None:
    root, cache = project(tmp_path)
    first = report(root, cache)
    assert len(first.findings) > 1
    assert sorted(analyzed) == ["lone.py", "racy.py"], "the helper has no GPU code"
    analyzed.clear()
    assert report(root, cache) == first
    assert report(root, cache, (root / "racy.py",)).analyzed == 1, "another report, of a known file"
    assert analyzed == []


FIELD = """\
import torch

class Worker:
    def __init__(self):
        self.side = torch.cuda.Stream()

    def run(self, x: torch.Tensor):
        with torch.cuda.stream(self.side):
            y = x * 2
        return y.sum()
"""


def test_what_was_searched_for_is_known_in_whatever_order_it_was_found(
    tmp_path: Path, analyzed: Done
) -> None:
    """The second script of one name comes last in a run, wherever it lies."""
    root, cache = tmp_path / "tree", tmp_path / "cache"
    files = written(root, {"a/user.py": FIELD, "b/user.py": FIELD, "c/other.py": FIELD})
    report(root, cache)
    assert analyzed == ["user.py", "user.py", "other.py"]
    analyzed.clear()
    report(root, cache, (files[0],))
    assert analyzed == []


def test_no_file_is_read_again_where_nothing_has_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for its comments."""
    monkeypatch.setattr(snapshot, "FRESH", 0)
    root, cache = project(tmp_path)
    comment = "    # streamlint: ignore[SL101] idle here\n    return y.sum()"
    written(root, {"lone.py": LONE.replace("    return y.sum()", comment), "plain.py": "x = 1\n"})
    options = (root, "--cache-dir", cache, "--output-format", "concise")
    first = run(capsys, "check", *options)
    read: list[str] = []

    def noted(path: Path, limit: int = MAX_BYTES) -> bytes:
        read.append(path.name)
        return read_source(path, limit)

    monkeypatch.setattr(files, "read_source", noted)
    monkeypatch.setattr("streamlint.cache.snapshot.read_source", noted)
    assert run(capsys, "check", *options).out == first.out
    assert read == ["lone.py"]


def test_a_changed_helper_is_done_again_with_its_callers_only(tmp_path: Path, analyzed: Done) -> None:
    root, cache = project(tmp_path)
    report(root, cache)
    analyzed.clear()
    (root / "helper.py").write_text(WAITING)
    assert report(root, cache) == report(root, None)
    assert "racy.py" in analyzed[:2]
    assert analyzed.count("lone.py") == 1, "without the cache"
    analyzed.clear()
    (root / "helper.py").write_text(HELPER)
    report(root, cache)
    assert analyzed == [], "it is what it was before"


def test_a_file_that_appears_is_found_by_those_that_looked_for_it(tmp_path: Path, analyzed: Done) -> None:
    root, cache = project(tmp_path)
    (root / "helper.py").unlink()
    report(root, cache)
    analyzed.clear()
    (root / "helper.py").write_text(WAITING)
    (root / "nobody.py").write_text("x = 1\n")
    report(root, cache)
    assert sorted(analyzed) == ["helper.py", "nobody.py", "racy.py"], "the new ones too"


def test_another_file_that_calls_is_part_of_what_was_read(tmp_path: Path, analyzed: Done) -> None:
    """Who passes what for a parameter is looked for in all modules."""
    root, cache = tmp_path / "tree", tmp_path / "cache"
    given_class = TEXTS["given.py"][0]
    written(root, {"given.py": given_class, "racy.py": RACY, "helper.py": HELPER, "user.py": LONE})
    before = report(root, cache)
    analyzed.clear()
    (root / "user.py").write_text(TEXTS["calls.py"][0])
    after = report(root, cache)
    assert {"given.py", "racy.py"} <= set(analyzed), "who makes a Loader may name its stream"
    assert "helper.py" not in analyzed
    assert (before, after) == (before, report(root, None))


CAPTURES = "import torch\n\ndef step(worker, g):\n    with torch.cuda.graph(g):\n        worker.run()\n"


def test_who_captures_is_asked_until_one_does(tmp_path: Path, analyzed: Done) -> None:
    """What a fix rests on is whether any file of the tree is a hazard, and not which one is the first."""
    root, cache = tmp_path / "tree", tmp_path / "cache"
    plain = "x = 1\n"
    written(root, {"a.py": CAPTURES, "lone.py": LONE, "m.py": plain, "z.py": CAPTURES})

    def is_safe() -> bool:
        found = report(root, cache)
        (safe,) = {fix.safe for finding in found.findings for fix in finding.fixes}
        return safe

    assert not is_safe()
    for name, text, expected, again in (
        ("a.py", plain, False, False),
        ("m.py", CAPTURES, False, False),
        ("z.py", plain, False, False),
        ("m.py", plain, True, True),
        ("a.py", CAPTURES, False, False),  # as at first
        ("a.py", plain, True, False),
    ):
        (root / name).write_text(text)
        analyzed.clear()
        assert (is_safe(), "lone.py" in analyzed) == (expected, again), (name, text)


def test_what_is_kept_moves_along_with_the_tree(tmp_path: Path, analyzed: Done) -> None:
    """A new checkout, or another machine: times and numbers of files are others, their texts are not."""
    root, cache = project(tmp_path)
    first = report(root, cache)
    analyzed.clear()
    other = tmp_path / "elsewhere" / "tree"
    other.parent.mkdir()
    root.rename(other)
    for path in tree(other):
        os.utime(path, (1, 1))
    assert report(other, cache) == first
    assert analyzed == []


@pytest.mark.internal_error
def test_what_time_or_memory_cut_is_not_kept(
    tmp_path: Path, analyzed: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, cache = project(tmp_path)

    def fails(*_: object) -> object:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Session, "_analyzed", fails)
        assert len(report(root, cache).errors) == 2
    analyzed.clear()
    assert report(root, cache).errors == ()
    assert sorted(analyzed) == ["lone.py", "racy.py"], "the others were done for good"


def test_what_changes_during_a_run_is_not_kept(
    tmp_path: Path, analyzed: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, cache = project(tmp_path)
    file = Session.file

    def edits_helper(work: Session, path: Path, only: frozenset[str] | None) -> FileResult:
        if path.name == "lone.py":
            (root / "helper.py").write_text(WAITING)
        return file(work, path, only)

    monkeypatch.setattr(Session, "file", edits_helper)
    report(root, cache)
    analyzed.clear()
    monkeypatch.setattr(Session, "file", file)
    (root / "helper.py").write_text(HELPER)
    assert report(root, cache) == report(root, None)


def test_another_analyzer_starts_anew(
    tmp_path: Path, analyzed: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an editable installation, too, where the version stays."""
    package = tmp_path / "package"
    written(package, {"rule.py": "x = 1\n"})
    monkeypatch.setattr(identity, "HERE", package)
    root, cache = project(tmp_path)
    report(root, cache)
    analyzed.clear()
    report(root, cache)
    assert analyzed == []
    (package / "rule.py").write_text("x = 2\n")
    report(root, cache)
    assert len(analyzed) == 2


def test_other_settings_are_other_results(tmp_path: Path, analyzed: Done) -> None:
    root, cache = project(tmp_path)
    report(root, cache)
    analyzed.clear()
    other = Settings(evidence=False, default_stream="per-thread")
    assert engine.analyze(root, tree(root), other, cache=cache) == engine.analyze(root, tree(root), other)
    assert analyzed.count("racy.py") == 2


# ----------------------------------------------------------------------------- what a file is known by


def test_a_file_is_read_again_if_it_may_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, {"a.py": "x = 1\n", "b.py": "y = 1\n"})
    files = {path.name: path for path in tree(tmp_path)}
    read: list[str] = []

    def noted(path: Path, limit: int) -> bytes:
        read.append(path.name)
        return read_source(path, limit)

    monkeypatch.setattr("streamlint.cache.snapshot.read_source", noted)

    def take(earlier: snapshot.Snapshot) -> snapshot.Snapshot:
        read.clear()
        return snapshot.load(snapshot.take(files, earlier, 1_000).dump())

    first = take(snapshot.Snapshot())
    take(first)
    assert read == ["a.py", "b.py"], "so young that a change might not show"
    monkeypatch.setattr(snapshot, "FRESH", 0)
    first = take(first)
    assert take(first) == first
    assert read == []
    (tmp_path / "a.py").write_text("x = 22\n")
    again = take(first)
    assert (read, set(again.changed(first))) == (["a.py"], {"a.py"})
    os.utime(tmp_path / "b.py", (1, 1))
    assert take(again).changed(again) == frozenset()
    assert read == ["b.py"]
    (tmp_path / "a.py").write_text("x" * 2_000)
    assert take(again).digests["a.py"] == snapshot.UNREADABLE


# ----------------------------------------------------------------------------- the command line

LOADED = """\
import sys
from streamlint import cli
status = cli.main(sys.argv[1:])
heavy = ("networkx", "streamlint.interp", "streamlint.lower", "streamlint.run.session")
print([name for name in heavy if name in sys.modules])
"""


def outside(*arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return re.sub(r"in [\d.]+ s", "", done.stdout)


def test_the_analyzer_is_not_loaded_where_all_is_known(tmp_path: Path) -> None:
    root, cache = project(tmp_path)
    first, again = (outside(root, "--cache-dir", cache, "--statistics") for _ in range(2))
    *shown_first, loaded_first = first.splitlines()
    *shown_again, loaded_again = again.splitlines()
    assert shown_first == shown_again
    assert "streamlint.lower" in loaded_first
    assert loaded_again == "[]"


def test_two_runs_at_once_give_what_each_gives_alone(tmp_path: Path, warm_command: list[str]) -> None:
    root, cache = project(tmp_path)

    def started(*options: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen([*warm_command, "check", root, *options], stdout=subprocess.PIPE, text=True)

    both = [started("--cache-dir", cache) for _ in range(2)]
    alone, *each = (run.communicate()[0] for run in (started("--no-cache"), *both))
    assert "SL101" in alone
    assert {re.sub(r"in [\d.]+ s", "", out) for out in (alone, *each)} == {re.sub(r"in [\d.]+ s", "", alone)}


def test_no_cache_reads_nothing_and_keeps_nothing(
    tmp_path: Path, analyzed: Done, capsys: pytest.CaptureFixture[str]
) -> None:
    root, cache = project(tmp_path)
    run(capsys, "check", root, "--cache-dir", cache, "--no-cache")
    assert not cache.exists()
    run(capsys, "check", root, "--cache-dir", cache)
    assert cache.exists()
    analyzed.clear()
    run(capsys, "check", root, "--cache-dir", cache, "--no-cache")
    assert len(analyzed) == 2


def test_a_tree_does_not_choose_where_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, cache = project(tmp_path)
    text = f"cache-dir = {json.dumps(str(cache))}\n"
    (root / "streamlint.toml").write_text(text)
    result = run(capsys, "check", root)
    assert (result.status, cache.exists()) == (2, False)
    assert "`cache-dir` is not for a tree to say" in result.err
    (root / "streamlint.toml").write_text("")
    mine = tmp_path / "mine.toml"
    mine.write_text(text)
    assert run(capsys, "check", root, "--config", mine).status == 1
    assert cache.exists()


def test_the_command_tells_and_clears(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, cache = project(tmp_path)
    assert run(capsys, "cache", "dir", "--cache-dir", cache).out == f"{cache}\n"
    assert "nothing is kept yet" in run(capsys, "cache", "info", "--cache-dir", cache).out
    run(capsys, "check", root, "--cache-dir", cache)
    assert "4 results, 2 trees" in run(capsys, "cache", "info", "--cache-dir", cache).out
    assert run(capsys, "cache", "clear", "--cache-dir", cache).status == 0
    assert not (cache / NAME).exists()
    assert run(capsys, "cache", "clear", "--cache-dir", cache).status == 0
