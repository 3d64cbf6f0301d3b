"""A safe fix names what the definition makes, and nothing else can stand in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.safe_fixes import PLAIN, RUN, is_safe, lines

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("made", "safe"),
    [
        ("s = torch.cuda.Stream()", True),
        ("s = Stream() if flag else torch.cuda.current_stream()", True),
        ("t, s = Stream(), Stream()", True),
        ("t = Stream()\ns = t", True),
        ("s = Stream()\ns = Stream(priority=-1)", True),
        ("s = Stream()\nfor s in [s, None]:\n    if flag:\n        break", False),
        ("all = [Stream(), Stream()]\ns = all[flag]", False),
        ("s = SIDE", True),
        ("s = LATE or Stream()", False),
        ("s = make()", False),
        ("s = Stream() if flag else None", False),
        ("s = Stream()\nif not flag:\n    s = None", False),
        ("s = None\nif flag:\n    s = Stream()", False),
        ("s = Stream()\n\ndef drop():\n    nonlocal s\n    s = None\n", False),
    ],
)
def test_a_local_name(tmp_path: Path, capsys: pytest.CaptureFixture[str], made: str, safe: bool) -> None:
    assert is_safe(tmp_path, capsys, RUN.format(parameter="", made=lines(made), then="pass")) is safe


@pytest.mark.parametrize(
    ("parameter", "safe"),
    [
        (", s: torch.cuda.Stream", True),
        (', s: "Stream"', True),
        (", s: torch.cuda.Stream | None", False),
        (", s: torch.cuda.Stream = None", False),
        (", *, s=None", False),
        (", s", False),
    ],
)
def test_a_parameter(tmp_path: Path, capsys: pytest.CaptureFixture[str], parameter: str, safe: bool) -> None:
    assert is_safe(tmp_path, capsys, RUN.format(parameter=parameter, made="pass", then="pass")) is safe


MODULE = """\
import torch

{first}


def run(x: torch.Tensor):
    with torch.cuda.stream(s):
        y = x * 2
    return y.sum()

{last}
"""


@pytest.mark.parametrize(
    ("first", "last", "safe"),
    [
        ("s = torch.cuda.Stream()", "", True),
        ("s = torch.cuda.Stream()", "def stop():\n    global s\n    s = None", False),
        ("s = torch.cuda.Stream()", "if not torch.cuda.is_available():\n    s = None", False),
        ("s = torch.cuda.Stream() if torch.cuda.is_available() else None", "", False),
        ("try:\n    s = torch.cuda.Stream()\nexcept RuntimeError:\n    s = None", "", False),
    ],
)
def test_a_variable_of_the_module(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], first: str, last: str, safe: bool
) -> None:
    assert is_safe(tmp_path, capsys, MODULE.format(first=first, last=last)) is safe


@pytest.mark.parametrize(
    "other", ["import code_\n\ncode_.s = None\n", 'def test(m):\n    m.setattr("code_.s", None)\n']
)
def test_another_module_assigns_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.py").write_text(other.replace("code_", "code"))
    assert not is_safe(tmp_path, capsys, MODULE.format(first="s = torch.cuda.Stream()", last=""))


FIELD = """\
import torch

class Worker:
    def __init__(self):
        self.s = torch.cuda.Stream()

    def run(self, x: torch.Tensor):
        {first}
        with torch.cuda.stream({side}):
            y = x * 2
        return y.sum()
"""
FIELD_WAIT = "torch.cuda.current_stream().wait_stream({})"


@pytest.mark.parametrize(("first", "side"), [("pass", "self.s"), ("s = self.s", "s")])
def test_a_field(tmp_path: Path, capsys: pytest.CaptureFixture[str], first: str, side: str) -> None:
    """Whoever has the object may give it another one: ``def close(worker): worker.s = None``."""
    assert not is_safe(tmp_path, capsys, FIELD.format(first=first, side=side), FIELD_WAIT.format(side))


@pytest.mark.parametrize(
    "line",
    [
        'globals()["torch"] = None',
        'exec("torch = None")',
        "def put(name):\n    setattr(sys.modules[__name__], name, None)",
    ],
)
def test_a_file_that_computes_names(tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    """Not even the module that is imported is sure to be there."""
    assert not is_safe(tmp_path, capsys, f"{PLAIN}\n\nimport sys\n\n{line}\n")


def test_a_mode_is_no_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = 'def call(model, x):\n    model.eval()\n    setattr(x, "training", False)\n'
    assert is_safe(tmp_path, capsys, f"{PLAIN}\n\n{last}")
