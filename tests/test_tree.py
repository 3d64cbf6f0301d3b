"""Files as modules: two of one name are two modules, and a folder without ``__init__.py`` is a package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import check_paths
from streamlint.finding import Confidence, leading
from streamlint.run import engine
from streamlint.run.results import Settings

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
    return [(f.code, f.primary.path, f.primary.line) for f in leading(report.findings)]


def written(root: Path, texts: dict[str, str]) -> list[Path]:
    files = []
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
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


SIDE = """\
import torch

def helper(x, s):
    with torch.cuda.stream(s):
        x.fill_(7.0)
"""
CALLER = """\
import torch
{import_line}

def run():
    s = torch.cuda.Stream()
    x = torch.zeros(10, device="cuda")
    torch.cuda.synchronize()
    helper(x, s)
    return x.sum().item()
"""


def reported(tmp_path: Path, helper: str, caller: str, import_line: str, packages: tuple[str, ...]) -> bool:
    texts = {helper: SIDE, caller: CALLER.format(import_line=import_line)}
    texts |= {f"{package}/__init__.py": "" for package in packages}
    return ("SL101", caller, 9) in lines(tmp_path, written(tmp_path, texts))


def test_a_folder_without_init_inside_a_package_belongs_to_it(tmp_path: Path) -> None:
    absolute = "from outer.inner.helpers import helper"
    assert reported(tmp_path, "outer/inner/helpers.py", "outer/inner/deep/run.py", absolute, ("outer",))
    relative = "from ..helpers import helper"
    assert reported(tmp_path, "outer/inner/helpers.py", "outer/inner/deep/run.py", relative, ("outer",))


def test_a_package_in_a_folder_without_init_has_two_names(tmp_path: Path) -> None:
    for import_line in ("from space.core.helpers import helper", "from core.helpers import helper"):
        assert reported(
            tmp_path, "src/space/core/helpers.py", "src/space/core/run.py", import_line, ("src/space/core",)
        )


def test_a_name_of_two_modules_means_neither(tmp_path: Path) -> None:
    files = written(
        tmp_path,
        {
            "one/space/core/__init__.py": "",
            "one/space/core/helpers.py": SIDE,
            "two/space/core/__init__.py": "",
            "two/space/core/helpers.py": SIDE,
            "run.py": CALLER.format(import_line="from space.core.helpers import helper"),
        },
    )
    assert "run.py" not in {path for _, path, _ in lines(tmp_path, files)}


def test_a_module_with_two_names_has_its_variables_once(tmp_path: Path) -> None:
    """The stream that one name set is the one that the other name finds."""
    texts = {
        "space/core/__init__.py": "",
        "space/core/streams.py": "import torch\n\nSIDE = torch.cuda.Stream()\n",
        "space/core/run.py": """\
import torch
import core.streams
from space.core.streams import SIDE

def run():
    x = torch.zeros(10, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(core.streams.SIDE):
        x.fill_(7.0)
    torch.cuda.current_stream().wait_stream(SIDE)
    return x.sum().item()
""",
    }
    assert lines(tmp_path, written(tmp_path, texts)) == []


def test_a_file_without_gpu_work_that_cannot_be_parsed_is_an_error(tmp_path: Path) -> None:
    files = written(
        tmp_path, {"plain.py": "def f(:\n", "train.py": "import plain\n" + RACE, "notes.py": "x = (\n"}
    )
    errors = engine.analyze(tmp_path, files, engine.Settings()).errors
    assert [error.path for error in errors] == ["notes.py", "plain.py"]


LANES = "import torch\n\nCOPY = torch.cuda.{made}\n"
USES = """
import torch
from lanes import COPY


def total(n):
    x = torch.zeros(n, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(COPY):
        x.fill_(7.0)
    return x.sum()
"""


def test_of_two_modules_of_one_name_that_beside_the_file_is_meant(tmp_path: Path) -> None:
    """Each folder of scripts has its own ``lanes.py``."""
    for folder, made in {"first": "Stream()", "second": "default_stream()"}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "lanes.py").write_text(LANES.format(made=made), encoding="utf-8")
        (tmp_path / folder / "uses.py").write_text(USES, encoding="utf-8")
    found = {finding.primary.path for finding in check_paths([tmp_path]).findings}
    assert {path.rpartition("/")[0].rpartition("/")[2] for path in found} == {"first"}


def test_a_module_that_appears_beside_a_file_is_meant_from_then_on(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    tree = tmp_path / "tree"
    for folder in ("first", "second"):
        (tree / folder).mkdir(parents=True)
    (tree / "first" / "lanes.py").write_text(LANES.format(made="Stream()"), encoding="utf-8")
    (tree / "second" / "uses.py").write_text(USES, encoding="utf-8")

    def found() -> set[str]:
        files = sorted(tree.rglob("*.py"))
        report = engine.analyze(tree, files, Settings(evidence=False), cache=kept)
        return {one.code for one in report.findings if one.confidence is not Confidence.POSSIBLE}

    assert "SL101" in found()
    (tree / "second" / "lanes.py").write_text(LANES.format(made="default_stream()"), encoding="utf-8")
    assert "SL101" not in found()
