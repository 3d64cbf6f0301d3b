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

{above}
class Worker{base}:
{body}
    def {setup}(self, **given):
        {first}
        self.s = {made}
        {last}

    def run(self, x: torch.Tensor):
        with torch.cuda.stream(self.s):
            y = x * 2
        return y.sum()

{below}
"""
NORMAL = dict.fromkeys(("above", "base", "body", "below"), "") | {
    **dict.fromkeys(("first", "last"), "pass"),
    "setup": "__init__",
    "made": "torch.cuda.Stream()",
}
HEIR = "class Heir(Worker):\n    def __init__(self):\n        super().__init__()\n        {}\n"
BY_HEIR = "from code_ import Worker\n\n\nclass Heir(Worker):\n"
FIELD_WAIT = "torch.cuda.current_stream().wait_stream(self.s)"


@pytest.mark.parametrize(
    ("parts", "safe"),
    [
        ({}, True),
        ({"base": "(torch.nn.Module)"}, True),
        ({"base": "(Base)", "above": "class Base:\n    pass\n\n"}, False),
        ({"body": "    def stop(self):\n        other = self\n        other.s = None\n"}, False),
        ({"setup": "start"}, False),
        ({"made": "torch.cuda.Stream() if given else None"}, False),
        ({"first": "if given:\n            return"}, False),
        ({"first": "self.start()"}, False),
        ({"last": "self.__dict__.update(given)"}, False),
        ({"last": "vars(self).update(given)"}, False),
        ({"last": "setattr(self, 's', given.get('s'))"}, False),
        ({"body": "    s = None\n"}, False),
        ({"body": "    def __getattribute__(self, name):\n        return None\n"}, False),
        ({"body": "    def __getstate__(self):\n        return {'s': None}\n"}, False),
        ({"body": "    def stop(self):\n        self.s = None\n"}, False),
        ({"below": "class Other:\n    def __init__(self):\n        self.t = None"}, True),
        ({"below": "class Other:\n    s = None\n\n    def __init__(self):\n        self.s = None"}, True),
        ({"below": "class Other:\n    @staticmethod\n    def stop(self):\n        self.s = None"}, False),
        ({"below": "def stop(worker):\n    del worker.s"}, False),
        ({"first": "super().start()", "base": "(threading.Thread)", "above": "import threading\n\n"}, False),
        (
            {"first": "self.mode = 1", "body": "    @property\n    def mode(self):\n        self.run(1)\n"},
            False,
        ),
        ({"below": "def call(x, worker):\n    Worker.run(worker, x)"}, True),
        ({"below": "class Heir(Worker):\n    def __init__(self):\n        pass"}, False),
        ({"below": "def stop(worker):\n    x, worker.s = 1, None"}, False),
        ({"below": HEIR.format("self.s = None")}, False),
        ({"below": HEIR.format("for name in 'rs':\n            setattr(self, name, None)")}, False),
        ({"below": "class Heir(Worker):\n    s = property(lambda self: None, lambda self, to: None)"}, False),
        ({"below": "def bare():\n    return Worker.__new__(Worker)"}, False),
    ],
)
def test_a_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], parts: dict[str, str], safe: bool
) -> None:
    assert is_safe(tmp_path, capsys, FIELD.format(**(NORMAL | parts)), FIELD_WAIT) is safe


@pytest.mark.parametrize(
    ("other", "safe"),
    [
        ("class Alone:\n    def stop(self):\n        self.t = None\n", True),
        ("class Alone:\n    s = None\n\n    def stop(self):\n        self.s = None\n", True),
        ("def stop(worker):\n    del worker.s\n", False),
        ("import mock, code_\n\nmock.patch.multiple(code_.Worker, s=None)\n", False),
        ("def stop(workers, name):\n    for each in workers:\n        setattr(each, name, None)\n", False),
        ("def stop(worker):\n    vars(worker).clear()\n", False),
        ("def stop(workers):\n    list(map(setattr, workers, 's', [None]))\n", False),
        ("def stop(worker):\n    object.__setattr__(worker, 'st'[:1], None)\n", False),
        ("def stop(worker):\n    object.__setattr__(worker, 't', None)\n", True),
        (f"{BY_HEIR}    def __init__(self):\n        pass\n", False),
        ("def stop(workers):\n    for each in workers:\n        each.s = None\n", False),
        (f"from code_ import Worker\n\n\n{HEIR.format('self.s = None')}", False),
        (f"{BY_HEIR}    s = property(lambda self: None)\n", False),
        (f"{BY_HEIR}    def put(self, to):\n        self.__dict__ = to\n", False),
        ("def test(monkeypatch, worker):\n    monkeypatch.setattr(worker, 's', None)\n", False),
        ("def test(patch, code_):\n    patch.object(code_.Worker, 's', None)\n", False),
    ],
)
def test_a_field_is_asked_of_other_modules(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    other: str,
    safe: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.py").write_text(other.replace("code_", "code"))
    assert is_safe(tmp_path, capsys, FIELD.format(**NORMAL), FIELD_WAIT) is safe


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


def test_a_base_of_the_tree_is_none_of_a_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("class Module:\n    def __getattr__(self, name):\n        return 0\n")
    parts = {"above": "from mine import Module\n\n", "base": "(Module)"}
    assert not is_safe(tmp_path, capsys, FIELD.format(**(NORMAL | parts)), FIELD_WAIT)


def test_a_mode_is_no_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = 'def call(model, x):\n    model.eval()\n    setattr(x, "training", False)\n'
    assert is_safe(tmp_path, capsys, f"{PLAIN}\n\n{last}")
