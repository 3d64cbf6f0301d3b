"""Files as modules: two files of one name are two modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import engine

if TYPE_CHECKING:
    from pathlib import Path

UNRELATED = "import torch\n\ndef helper(x, s):\n    return x\n"
RACE = """\
import torch

def helper(x, s):
    with torch.cuda.stream(s):
        x.fill_(7.0)

def run():
    s = torch.cuda.Stream()
    x = torch.zeros(10, device="cuda")
    torch.cuda.synchronize()
    helper(x, s)
    return x.sum().item()
"""


def lines(root: Path, files: list[Path]) -> list[tuple[str, str, int]]:
    report = engine.analyze(root, files, engine.Settings())
    assert not report.errors
    return [(f.code, f.primary.path, f.primary.line) for f in report.findings]


def written(root: Path, texts: dict[str, str]) -> list[Path]:
    files = []
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        files.append(path)
    return files


def test_scripts_of_one_name_use_their_own_functions(tmp_path: Path) -> None:
    files = written(tmp_path, {"a/train.py": UNRELATED, "b/train.py": RACE})
    assert lines(tmp_path, files) == [("SL101", "b/train.py", 12)]


def test_the_order_of_the_files_does_not_matter(tmp_path: Path) -> None:
    files = written(tmp_path, {"a/train.py": RACE, "b/train.py": UNRELATED, "c/train.py": RACE})
    expected = [("SL101", "a/train.py", 12), ("SL101", "c/train.py", 12)]
    assert lines(tmp_path, files) == expected
    assert lines(tmp_path, files[::-1]) == expected


def test_a_package_wins_over_a_namesake_which_stays_a_module(tmp_path: Path) -> None:
    package = "from train.parts import run\n"
    texts = {"a/train.py": RACE, "train/__init__.py": package, "train/parts.py": RACE}
    assert {path for _, path, _ in lines(tmp_path, written(tmp_path, texts))} == {
        "a/train.py",
        "train/parts.py",
    }
