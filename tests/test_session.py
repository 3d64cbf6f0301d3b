"""What a run over many files keeps between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.run import collector, engine, searches, session
from streamlint.run.tree import Tree
from tests.test_tree import written

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from streamlint import ir

HELPER = "import torch\n\ndef fork(x):\n    side = torch.cuda.Stream()\n    return side\n"
USER = f"""\
import torch
from common import fork

def run(x):
    return fork(x), torch.cuda.Stream()
# {"x" * 400}
"""

OF_MODULE = """\
import torch

side = torch.cuda.Stream()

def run(x: torch.Tensor):
    with torch.cuda.stream(side):
        y = x * 2
    return y.sum()
"""


def test_what_all_files_are_asked_is_found_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file with a fix asks all files whether they have a hazard, or store the variable it names."""
    texts = {"common.py": "class Base:\n    other = None\n"}
    files = tuple(written(tmp_path, texts | {f"user{number}.py": OF_MODULE for number in range(6)}))
    run = session.Session(tmp_path, files, engine.Settings(), {})
    asked: list[searches.Kind] = []
    matches = searches.Search.matches

    def counted(search: searches.Search, data: bytes | None) -> bool:
        asked.append(search.kind)
        return matches(search, data)

    monkeypatch.setattr(searches.Search, "matches", counted)
    monkeypatch.setattr(collector, "collect", lambda: None)
    for path in files[1:]:
        result = session.collected(run, path)
        assert any(fix.safe for finding in result.findings for fix in finding.fixes)
        assert result.reads is not None
        assert searches.hazards() in result.reads.searches
    assert asked.count(searches.Kind.HAZARDS) == asked.count(searches.Kind.STORES) == len(files)


def test_what_most_files_import_stays_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where too much is indexed, what no file has looked at for longest is forgotten, and not all."""
    texts = {"common.py": HELPER, **{f"user{number}.py": USER for number in range(8)}}
    files = tuple(written(tmp_path, texts))
    monkeypatch.setattr(session, "MOST_INDEXED", 2_500)
    run = session.Session(tmp_path, files, engine.Settings(), {})
    indexed: list[str] = []
    index = Tree.index

    def counted(tree: Tree, path: Path, name: str, *, is_package: bool) -> ir.Module | None:
        indexed.append(name)
        return index(tree, path, name, is_package=is_package)

    monkeypatch.setattr(Tree, "index", counted)
    monkeypatch.setattr(collector, "collect", lambda: None)  # all that these tests have made
    for path in files:
        if path.name.startswith("user"):
            session.collected(run, path)
    assert indexed.count("common") == 1
    assert run.tree.indexed["common"] == len(HELPER)
    assert sum(run.tree.indexed.values()) <= 2_500
    session.collected(run, tmp_path / "user0.py")
    assert indexed.count("user0") == 2


def test_who_captures_is_asked_of_the_texts(tmp_path: Path) -> None:
    """A fix asks whether anything captures: the file that does is noted, though nothing imports it."""
    captures = "import torch\n\ndef step(worker, g):\n    with torch.cuda.graph(g):\n        worker.run()\n"
    worker = """\
import torch

def run():
    side, x = torch.cuda.Stream(), torch.ones(4, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    return y.sum()
"""
    for others, is_safe in (({}, True), ({"captures.py": captures}, False)):
        files = tuple(written(tmp_path, {"worker.py": worker, **others}))
        run = session.Session(tmp_path, files, engine.Settings(), {})
        result = session.collected(run, tmp_path / "worker.py")
        assert {fix.safe for finding in result.findings for fix in finding.fixes} == {is_safe}
        assert result.reads is not None
        assert result.reads.searches[searches.hazards()] == tuple(others)


def test_one_file_that_captures_answers_for_all(tmp_path: Path) -> None:
    """Large trees have hundreds: the first in the order of paths, whatever order files are named in."""
    captures = "import torch\n\ndef step(worker, g):\n    with torch.cuda.graph(g):\n        worker.run()\n"
    texts = {"c.py": captures, "a.py": "x = 1\n", "b.py": captures, "worker.py": OF_MODULE}
    files = tuple(written(tmp_path, texts))
    for order in (files, files[::-1]):
        run = session.Session(tmp_path, order, engine.Settings(), {})
        result = session.collected(run, tmp_path / "worker.py")
        assert result.reads is not None
        assert result.reads.searches[searches.hazards()] == ("b.py",)


WAITS = """\
import torch


class Table:
    def __init__(self):
        self.filled = torch.cuda.Event()
        self.side = torch.cuda.Stream()

    def read(self, x: torch.Tensor):
        self.side.wait_event(self.filled)
        with torch.cuda.stream(self.side):
            return x.sum()
"""
RECORDS = "import torch\n\n\ndef fill(table):\n    table.filled.record(torch.cuda.Stream())\n"


def surest(folder: Path, texts: dict[str, str]) -> set[str]:
    """How sure a wait for an event is told that no code records in the file itself."""
    files = tuple(written(folder, texts))
    result = session.collected(session.Session(folder, files, engine.Settings(), {}), folder / "table.py")
    return {one.confidence.value for one in result.findings if one.code == "SL103"}


def test_scripts_that_lie_in_one_folder_know_nothing_of_each_other(tmp_path: Path) -> None:
    assert surest(tmp_path / "one", {"table.py": WAITS}) == {"certain"}
    assert surest(tmp_path / "apart", {"table.py": WAITS, "other.py": RECORDS}) == {"certain"}
    imports = f"from table import Table\n{RECORDS}"
    assert surest(tmp_path / "importing", {"table.py": WAITS, "other.py": imports}) == {"possible"}
    third = "import other\nimport table\n\nother.fill(table.Table())\n"
    parts = {"table.py": WAITS, "other.py": RECORDS, "main.py": third}
    assert surest(tmp_path / "together", parts) == {"possible"}
    packaged = {f"net/{name}": text for name, text in {"table.py": WAITS, "other.py": RECORDS}.items()}
    files = tuple(written(tmp_path / "package", {"net/__init__.py": "", **packaged}))
    run = session.Session(tmp_path / "package", files, engine.Settings(), {})
    found = session.collected(run, tmp_path / "package" / "net" / "table.py").findings
    assert {one.confidence.value for one in found if one.code == "SL103"} == {"possible"}
