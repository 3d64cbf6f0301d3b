"""What a run over many files keeps between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.run import engine, session
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
    for path in files:
        if path.name.startswith("user"):
            session.collected(run, path)
    assert indexed.count("common") == 1
    assert run.tree.indexed["common"] == len(HELPER)
    assert sum(run.tree.indexed.values()) <= 2_500
    session.collected(run, tmp_path / "user0.py")
    assert indexed.count("user0") == 2
