"""A safe fix names only what is there on every way: ``None.wait_stream(...)`` would be a new error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint import cli

if TYPE_CHECKING:
    from pathlib import Path

CODE = """\
import contextlib
import torch


def two(flag):
    if flag:
        return torch.cuda.Stream()
    return None


def one():
    return torch.cuda.Stream()


def run(x: torch.Tensor, flag: bool{parameter}):
{made}
    with torch.cuda.stream(s):
        y = x * 2
    return y.sum()
"""
METHODS = """\
import torch


class Worker:
    def __init__(self, flag):
        self.s = {first}

    def reset(self):
        self.s = {second}

    def run(self, x: torch.Tensor):
        {before}
        with torch.cuda.stream(self.s):
            y = x * 2
        return y.sum()
"""


def is_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, stream: str = "s") -> bool:
    (tmp_path / "code.py").write_text(text)
    path = str(tmp_path / "code.py")
    added = []
    for option in ([], ["--unsafe-fixes"]):
        cli.main([path, "--no-cache", "--min-confidence", "possible", "--diff", *option])
        said = capsys.readouterr().out.splitlines()
        added.append(any(line.startswith("+") and line.endswith(f".wait_stream({stream})") for line in said))
    assert added[1], text
    return added[0]


@pytest.mark.parametrize(
    ("made", "safe"),
    [
        ("s = torch.cuda.Stream()", True),
        ("s = one()", True),
        ("s = torch.cuda.Stream() if flag else torch.cuda.current_stream()", True),
        ("s = [torch.cuda.Stream() for _ in range(2)][0]", False),
        ("all = [torch.cuda.Stream() for _ in range(2)]\ns = all[0]", True),
        ("all = [torch.cuda.Stream()]\nall[0] = None if flag else all[0]\ns = all[0]", False),
        ("s = None\nif s is None:\n    s = torch.cuda.Stream()", True),
        ("s = two(flag)\nif s is None:\n    return x", True),
        ("s = two(flag)\nassert s is not None", True),
        ("s = two(flag)\ns.synchronize()", True),
        ("s = torch.cuda.Stream() if flag else None", False),
        ("s = two(flag)", False),
        ("s = two(flag)\nif flag:\n    s.synchronize()", False),
        ("s = two(flag)\nwith contextlib.suppress(AttributeError):\n    s.synchronize()", False),
        ("s = two(flag)\nwith torch.no_grad():\n    s.synchronize()", True),
        ("s = torch.cuda.Stream()\nif not flag:\n    s = None", False),
        ("s = torch.cuda.Stream()\ns.synchronize()\nif not flag:\n    s = None", False),
        ("s = torch.cuda.Stream()\nfor s in [s, None]:\n    if flag:\n        break", False),
    ],
)
def test_a_local_name(tmp_path: Path, capsys: pytest.CaptureFixture[str], made: str, safe: bool) -> None:
    lines = "\n".join(f"    {line}" for line in made.splitlines())
    assert is_safe(tmp_path, capsys, CODE.format(parameter="", made=lines)) is safe


@pytest.mark.parametrize(
    ("parameter", "safe"),
    [
        (", s: torch.cuda.Stream", True),
        (", s: torch.cuda.Stream | None", False),
        (", *, s=None", False),
        (", s", False),
    ],
)
def test_a_parameter(tmp_path: Path, capsys: pytest.CaptureFixture[str], parameter: str, safe: bool) -> None:
    assert is_safe(tmp_path, capsys, CODE.format(parameter=parameter, made="    pass")) is safe


NEW = "torch.cuda.Stream()"


@pytest.mark.parametrize(
    ("first", "second", "before", "safe"),
    [
        (NEW, NEW, "pass", True),
        (NEW, "None", "pass", False),
        (f"{NEW} if flag else None", NEW, "pass", False),
        (f"{NEW} if flag else None", NEW, "assert self.s is not None", True),
        (NEW, "None", "self.s.synchronize()", True),
        (NEW, f"{NEW} if self.flag else None", "self.s.synchronize(); self.reset()", False),
    ],
)
def test_an_attribute(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    first: str,
    second: str,
    before: str,
    safe: bool,
) -> None:
    text = METHODS.format(first=first, second=second, before=before)
    assert is_safe(tmp_path, capsys, text, "self.s") is safe


FIELD = """\
import torch


{above}class Worker({base}):
{body}
    def {setup}(self):
        self.s = torch.cuda.Stream()

    def run(self, x: torch.Tensor):
        with torch.cuda.stream(self.s):
            y = x * 2
        return y.sum()
{below}
"""
HEIR = "class Heir(Worker):\n    def __init__(self):\n        super().__init__()\n        {}\n"


@pytest.mark.parametrize(
    ("parts", "safe"),
    [
        ({}, True),
        ({"body": "    s = None"}, True),  # the constructor sets it
        ({"body": "    s = None", "setup": "start"}, False),
        ({"above": "class Base:\n    s = None\n\n\n", "base": "Base", "setup": "start"}, False),
        ({"below": HEIR.format("self.s = None")}, False),
        ({"below": HEIR.format("self.s = torch.cuda.Stream()")}, True),
        ({"below": HEIR.format("setattr(self, 's', None)")}, False),
        ({"below": HEIR.format("for name in 'rs':\n            setattr(self, name, None)")}, False),
        ({"below": "class Other:\n    def __init__(self):\n        self.s = None\n"}, True),
        ({"below": "def stop(worker):\n    worker.s = None\n"}, False),
        ({"below": "def stop(worker):\n    x, worker.s = 1, None\n"}, False),
    ],
)
def test_a_field_is_asked_of_all_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], parts: dict[str, str], safe: bool
) -> None:
    empty = {"above": "", "base": "", "body": "", "setup": "__init__", "below": ""}
    assert is_safe(tmp_path, capsys, FIELD.format(**(empty | parts)), "self.s") is safe


@pytest.mark.parametrize(
    ("other", "safe"),
    [
        (
            "from code_ import Worker\n\n\nclass Heir(Worker):\n    s = None\n",
            True,
        ),  # hidden by what each object has
        (f"from code_ import Worker\n\n\n{HEIR.format('self.s = None')}", False),
        (f"import torch\nfrom code_ import Worker\n\n\n{HEIR.format('self.s = torch.cuda.Stream()')}", True),
        ("class Alone:\n    def stop(self):\n        self.s = None\n", True),
        ("def stop(workers):\n    for each in workers:\n        each.s = None\n", False),
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
    text = FIELD.format(above="", base="", body="", setup="__init__", below="")
    assert is_safe(tmp_path, capsys, text, "self.s") is safe


def test_a_field_that_another_method_sets_can_be_named_where_the_next_line_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The host need not wait: ``with torch.cuda.stream(self.s)`` would fail as well if it were not there."""
    (tmp_path / "code.py").write_text(FIELD.format(above="", base="", body="", setup="start", below=""))
    cli.main([str(tmp_path / "code.py"), "--no-cache", "--min-confidence", "possible", "--diff"])
    said = capsys.readouterr().out
    assert "+        self.s.wait_stream(torch.cuda.current_stream())" in said
    assert "synchronize" not in said


MAKING = """\
import torch
from numba import cuda

{above}
class Lane:
    def make(self):
        return torch.cuda.Stream()

    def run(self, x: torch.Tensor, on: bool):
        s = {made}
        with torch.cuda.stream(s):
            y = x * 2
        return y.sum()


def make(on=True):
    if on:
        return torch.cuda.Stream()
    raise ValueError

{below}
"""
HIDDEN = "try:\n    from torch.cuda import Stream\nexcept ImportError:\n    Stream = lambda: None\n"


@pytest.mark.parametrize(
    ("above", "made", "below", "safe"),
    [
        ("", "self.make()", "", True),
        ("", "self.make()", "class Heir(Lane):\n    def make(self):\n        return None", False),
        ("", "self.make()", "class Other:\n    def make(self):\n        return None", True),
        ("", "make()", "", True),
        ("", "make()", "if not torch.cuda.is_available():\n    make = lambda: None", False),
        ("from torch.cuda import Stream\n", "Stream()", "", True),
        (HIDDEN, "Stream()", "", False),
        ("import torch.cuda as c\n", "c.Stream() if on else 0", "", False),
    ],
)
def test_what_makes_it_may_be_another_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], above: str, made: str, below: str, safe: bool
) -> None:
    assert is_safe(tmp_path, capsys, MAKING.format(above=above, made=made, below=below)) is safe


@pytest.mark.parametrize(
    ("other", "safe"),
    [
        ("import code_\n\n\nclass Heir(code_.Lane):\n    def make(self):\n        return None\n", False),
        ("class Heir:\n    def make(self):\n        return None\n", True),
    ],
)
def test_an_heir_in_another_module_may_make_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    other: str,
    safe: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.py").write_text(other.replace("code_", "code"))
    assert is_safe(tmp_path, capsys, MAKING.format(above="", made="self.make()", below="")) is safe


@pytest.mark.parametrize(
    ("other", "safe"),
    [
        (
            "import torch, code_\n\ndef f(g, x):\n    with torch.cuda.graph(g):\n        code_.run(x, 1)\n",
            False,
        ),
        ("import code_\n\ndef f(g, x):\n    code_.run(x, True)\n", True),
        ("import torch\n\ndef f(g, x):\n    with torch.cuda.graph(g):\n        return x * 2\n", True),
    ],
)
def test_a_function_that_another_module_captures_may_not_wait(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    other: str,
    safe: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.py").write_text(other.replace("code_", "code"))
    made = "    s = torch.cuda.Stream()"
    assert is_safe(tmp_path, capsys, CODE.format(parameter="", made=made)) is safe


def test_a_function_that_another_module_replaces_may_give_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.py").write_text("import code_\n\ncode_.make = lambda: None\n".replace("code_", "code"))
    assert not is_safe(tmp_path, capsys, MAKING.format(above="", made="make()", below=""))


NUMBERS = """\
from numba import cuda


def run(x, on):
    s = {made}
    p = cuda.pinned_array(x.shape, x.dtype)
    d = cuda.to_device(x, stream=s)
    d.copy_to_host(p, stream=s)
    return float(p[0])
"""


@pytest.mark.parametrize(
    ("made", "safe"), [("cuda.stream()", True), ("cuda.stream() if on else 0", False), ("0", False)]
)
def test_a_number_has_no_methods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: str, safe: bool
) -> None:
    """It stands for the default stream with Numba."""
    (tmp_path / "code.py").write_text(NUMBERS.format(made=made))
    cli.main([str(tmp_path / "code.py"), "--no-cache", "--min-confidence", "possible", "--diff"])
    assert ("+    s.synchronize()" in capsys.readouterr().out) is safe


NAMES = """\
from typing import TYPE_CHECKING

{above}


def run(x):
    {first}
    s = {made}
    with {entered}(s):
        y = x * 2
    {then}
    return y.sum()
"""
PLAIN = {"first": "pass", "made": "torch.cuda.Stream()", "entered": "torch.cuda.stream", "then": "pass"}


@pytest.mark.parametrize(
    ("parts", "safe"),
    [
        ({"above": "import torch"}, True),
        ({"above": "try:\n    import torch\nexcept ImportError:\n    torch = None"}, True),
        ({"above": "pass", "first": "import torch"}, True),
        ({"above": "import torch", "then": "torch = None"}, True),
        ({"above": "pass", "first": "import torch", "then": "del torch"}, True),
        (
            {
                "above": "if TYPE_CHECKING:\n    import torch",
                "first": "from torch.cuda import Stream, stream",
                "made": "Stream()",
                "entered": "stream",
            },
            False,
        ),
    ],
)
def test_a_module_is_named_where_it_is_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], parts: dict[str, str], safe: bool
) -> None:
    then = (PLAIN | parts)["then"]
    (tmp_path / "code.py").write_text(NAMES.format(**(PLAIN | parts)))
    cli.main([str(tmp_path / "code.py"), "--no-cache", "--min-confidence", "possible", "--diff"])
    said = capsys.readouterr().out
    wait = said.find("+    torch.cuda.current_stream().wait_stream(s)")
    assert (wait >= 0) is safe
    assert then == "pass" or wait < said.find(f" {then}\n     return y")


HOST = """\
import torch


def run(x: torch.Tensor, on: bool):
    {line}
    {last}
"""


@pytest.mark.parametrize(
    ("line", "last", "added"),
    [
        ('h = x.to("cpu", non_blocking=True)', "return h.tolist()", "+    torch.cuda."),
        (
            'h = x.to("cpu", non_blocking=True) if torch.cuda.is_available() else x',
            "return h.tolist()",
            None,
        ),
        (
            'if on:\n        h = x.to("cpu", non_blocking=True)\n    else:\n        h = x',
            "return h.tolist()",
            "+        torch.cuda.",
        ),
    ],
)
def test_a_program_that_runs_without_a_gpu_still_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, last: str, added: str | None
) -> None:
    """``torch.cuda.current_stream()`` fails there: it is called where a copy was surely queued."""
    (tmp_path / "code.py").write_text(HOST.format(line=line, last=last))
    cli.main([str(tmp_path / "code.py"), "--no-cache", "--diff"])
    said = [each for each in capsys.readouterr().out.splitlines() if "current_stream().sync" in each]
    assert (said == []) if added is None else (len(said) == 1 and said[0].startswith(added))


def test_a_star_is_no_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = CODE.format(parameter="", made="    s = torch.cuda.Stream()")
    (tmp_path / "code.py").write_text(
        text.replace("import torch\n", "import torch\nfrom torch.cuda import *\n")
    )
    cli.main([str(tmp_path / "code.py"), "--no-cache", "--min-confidence", "possible", "--diff"])
    assert "+    torch.cuda.current_stream().wait_stream(s)" in capsys.readouterr().out


THREADS = """\
import queue
import threading

import torch


class Loader:
    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.queue = queue.Queue()
        self.thread = threading.Thread(target=self.load)
        self.thread.start()

    def load(self):
        with torch.cuda.stream(self.stream):
            self.queue.put(torch.ones(1 << 20, device="cuda"))


def total():
    loader = Loader()
    batch = loader.queue.get()
    return batch.sum().item()
"""


def test_what_a_thread_queues_is_waited_for_behind_the_queue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Behind ``thread.start()`` it may not have queued anything yet: a GPU showed the race as before."""
    (tmp_path / "code.py").write_text(THREADS)
    cli.main([str(tmp_path / "code.py"), "--no-cache", "--diff", "--unsafe-fixes"])
    lines = capsys.readouterr().out.splitlines()
    (wait,) = (number for number, line in enumerate(lines) if line.startswith("+ "))
    assert "wait_stream(loader.stream)" in lines[wait]
    assert "queue.get()" in lines[wait - 1]


ROUNDS = """\
import torch


def total(parts):
    x = torch.ones(1 << 20, device="cuda")
    for part in parts:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            x = x * part
    return x.sum()
"""


def test_the_stream_of_an_earlier_round_is_waited_for_by_way_of_the_current_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no name where the next round could wait for it; the host is not held up for that."""
    (tmp_path / "code.py").write_text(ROUNDS)
    cli.main([str(tmp_path / "code.py"), "--no-cache", "--diff"])
    said = capsys.readouterr()
    lines = [line for line in said.out.splitlines() if line.startswith("+") and "(" in line]
    assert lines == [
        "+        side.wait_stream(torch.cuda.current_stream())",
        "+        torch.cuda.current_stream().wait_stream(side)",
    ]
    assert "Would fix 3 findings (SL101 3)." in said.err
