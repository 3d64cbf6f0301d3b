"""``streamlint graph``: one program through the command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from streamlint.cli import main
from tests.drawn import PICTURES, draw
from tests.test_guides import DOCS

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """\
import torch


def fork():
    side = torch.cuda.Stream()
    x = torch.zeros(1024, device="cuda")
    torch.cuda.synchronize()
    x.fill_(7.0)
    with torch.cuda.stream(side):
        total = x.sum()
    torch.cuda.synchronize()
    return total.item()


class Loader:
    def __init__(self):
        self.staging = torch.empty(8, pin_memory=True)
        self.batch = torch.empty(8, device="cuda")

    def load(self, sample):
        self.staging.numpy()[:] = sample
        self.batch.copy_(self.staging, non_blocking=True)


def nothing():
    return 1
"""


def run(tmp_path: Path, *arguments: str) -> int:
    (tmp_path / "program.py").write_text(PROGRAM, "utf-8")
    return main(["graph", f"{tmp_path / 'program.py'}{arguments[0]}", *arguments[1:]])


def test_text_goes_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "::fork") == 0
    out = capsys.readouterr().out
    assert "A   8  the current stream  x.fill_(7.0) " in out
    assert "Nothing orders A and B." in out


@pytest.mark.parametrize(
    ("name", "begins"), [("x.svg", "<svg "), ("x.html", "<!DOCTYPE html>"), ("x.mmd", "flowchart TD")]
)
def test_the_name_of_the_file_tells_the_format(tmp_path: Path, name: str, begins: str) -> None:
    assert run(tmp_path, "::fork", "-o", str(tmp_path / name)) == 0
    assert (tmp_path / name).read_text("utf-8").startswith(begins)


def test_a_picture_has_the_pair_that_check_reports(tmp_path: Path) -> None:
    assert run(tmp_path, "::fork", "-o", str(tmp_path / "x.json")) == 0
    (picture,) = json.loads((tmp_path / "x.json").read_text("utf-8"))["pictures"]
    (missing,) = picture["missing"]
    pair = [picture["operations"][missing[end]] for end in ("earlier", "later")]
    assert [(each["place"], each["code"], each["letter"]) for each in pair] == [
        ("8", "x.fill_(7.0)", "A"),
        ("10", "x.sum()", "B"),
    ]


def test_a_method_is_drawn_with_the_call_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "::Loader.load") == 0
    out = capsys.readouterr().out
    assert "--- call 1 of `Loader.load`" in out
    assert "--- call 2 of `Loader.load`" in out


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("", "program.py::FUNCTION; it has fork, nothing, Loader."),
        ("::nothing", "does no GPU work"),
        ("::forc", "has no function forc; did you mean `fork`? It has fork,"),
        ("::lod", "has no function lod; it has Loader.load,"),
    ],
)
def test_command_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, reason: str
) -> None:
    assert run(tmp_path, target) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-o", "x.gif"], "x.gif: a name that ends in one of .txt,"),
        (["--format", "png"], "a PNG goes into a file"),
    ],
)
def test_command_wants_a_format_that_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    assert run(tmp_path, "::fork", *arguments) == 2
    assert reason in capsys.readouterr().err


def test_command_needs_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "nowhere.py::f"]) == 2
    assert "nowhere.py is not a file" in capsys.readouterr().err


def test_command_tells_what_is_no_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.py").write_text("import torch\ndef f(:\n", "utf-8")
    assert main(["graph", f"{tmp_path / 'broken.py'}::f"]) == 2
    assert "broken.py:2: " in capsys.readouterr().err


@pytest.mark.parametrize("picture", PICTURES, ids=str)
def test_the_pictures_of_the_documentation_are_what_is_drawn(
    picture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(DOCS.parent)
    assert draw(picture, tmp_path / "drawn.svg") == 0
    drawn = (tmp_path / "drawn.svg").read_text("utf-8")
    assert drawn == picture.read_text("utf-8"), "python -m tests.drawn"


def test_the_default_stream_is_that_of_the_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "from cuda.bindings import runtime as cudart\n\n\n"
    text = f"{head}def f():\n    _, p = cudart.cudaMalloc(4)\n    cudart.cudaMemsetAsync(p, 0, 4, 0)\n"
    (tmp_path / "zero.py").write_text(text, "utf-8")
    for name, kind in (("legacy", "(legacy)"), ("per-thread", "of the thread")):
        (tmp_path / "streamlint.toml").write_text(f'default-stream = "{name}"\n', "utf-8")
        assert main(["graph", f"{tmp_path / 'zero.py'}::f", "--format", "json"]) == 0
        assert kind in capsys.readouterr().out


SCRIPT = """\
import torch

side = torch.cuda.Stream()
x = torch.ones(4, device="cuda")
with torch.cuda.stream(side):
    y = x * 2
print(y.sum())
"""


def test_what_a_script_or_a_notebook_does_outside_of_functions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": SCRIPT.splitlines(keepends=True)}]
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "book.ipynb").write_text(json.dumps(book))
    for name in ("script.py", "book.ipynb"):
        assert main(["graph", str(tmp_path / name)]) == 0
        told = capsys.readouterr().out
        assert "Nothing orders" in told
        assert "y.sum()" in told


def test_the_memory_of_one_finding_is_not_taken_for_that_of_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One is read too early, another one goes back too early: each card names its own."""
    (tmp_path / "both.py").write_text(BOTH)
    assert main(["graph", str(tmp_path / "both.py::run")]) == 0
    told = capsys.readouterr().out
    (used,) = (line for line in told.splitlines() if line.startswith("C "))
    (reused,) = (line for line in told.splitlines() if line.startswith("D "))
    name = reused.rpartition("`")[0].rpartition("`")[2]
    assert f"reads `{name}`" in used


def test_what_is_found_with_another_file_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "streams.py").write_text(
        "import torch\n\nCOPY = None\n\n\ndef init():\n    global COPY\n    COPY = torch.cuda.Stream()\n"
    )
    (tmp_path / "use.py").write_text(
        "import streams\nimport torch\n\n\ndef run(x: torch.Tensor):\n"
        "    with torch.cuda.stream(streams.COPY):\n        y = x * 2\n    return y + 1\n"
    )
    assert main(["graph", str(tmp_path / "use.py::run")]) == 0
    assert "Nothing orders A and B." in capsys.readouterr().out


BOTH = """\
import torch


class Prefetcher:
    def __init__(self, loader):
        self.loader = iter(loader)
        self.stream = torch.cuda.Stream()
        self.preload()

    def preload(self):
        batch, target = next(self.loader)
        with torch.cuda.stream(self.stream):
            self.batch = batch.cuda(non_blocking=True).sub_(127)
            self.target = target.cuda(non_blocking=True)

    def next(self):
        batch, target = self.batch, self.target
        self.preload()
        return batch, target


def run(loader, model):
    p = Prefetcher(loader)
    x, y = p.next()
    while x is not None:
        loss = model(x) - y
        x, y = p.next()
"""
