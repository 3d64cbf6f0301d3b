"""A safe fix rests on what the text proves: what the definition names, and how it may not be so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint import cli

if TYPE_CHECKING:
    from pathlib import Path

RUN = """\
import torch
from torch.cuda import Stream

SIDE = Stream()
LATE = None


def make():
    return Stream()


def run(x: torch.Tensor, flag: bool{parameter}):
    {made}
    with torch.cuda.stream(s):
        y = x * 2
    {then}
    return y.sum()
"""
WAIT = "torch.cuda.current_stream().wait_stream(s)"


def fixed(where: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What ``--diff`` adds, and what it says."""
    cli.main([str(where), "--no-cache", "--min-confidence", "possible", "--diff", *options])
    return capsys.readouterr().out


def is_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, wait: str = WAIT) -> bool:
    """Whether a wait is put in by ``--fix``; it is offered as an unsafe one in any case."""
    (tmp_path / "code.py").write_text(text)
    assert f"{wait}\n" in fixed(tmp_path / "code.py", capsys, "--unsafe-fixes")
    return f"{wait}\n" in fixed(tmp_path / "code.py", capsys)


def lines(text: str, indent: str = "    ") -> str:
    return f"\n{indent}".join(text.splitlines())


@pytest.mark.parametrize(
    ("made", "safe"),
    [
        ("s = torch.cuda.Stream()", True),
        ("s = Stream() if flag else torch.cuda.current_stream()", True),
        ("t, s = Stream(), Stream()", True),
        ("t = Stream()\ns = t", True),
        ("s = Stream()\ns = Stream(priority=-1)", True),
        ("all = [Stream() for _ in range(2)]\ns = all[0]", True),
        ("all = [Stream(), Stream()]\ns = all[flag]", True),
        ("s = Stream()\nfor s in [s, None]:\n    if flag:\n        break", False),
        ("all = [Stream() for _ in range(2)]\nall.append(None)\ns = all[0]", False),
        ("all = [Stream()]\nall[0] = None if flag else all[0]\ns = all[0]", False),
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
PLAIN = dict.fromkeys(("above", "base", "body", "below"), "") | {
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
        ({"below": "class Other:\n    def __init__(self):\n        self.s = None"}, True),
        ({"below": "def stop(worker):\n    x, worker.s = 1, None"}, False),
        ({"below": "class Null:\n    s = None\n\n\ndef call(x):\n    return Worker.run(Null(), x)"}, False),
        ({"below": HEIR.format("self.s = None")}, False),
        ({"below": HEIR.format("for name in 'rs':\n            setattr(self, name, None)")}, False),
        ({"below": "class Heir(Worker):\n    s = property(lambda self: None, lambda self, to: None)"}, False),
        ({"below": "def bare():\n    return Worker.__new__(Worker)"}, False),
    ],
)
def test_a_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], parts: dict[str, str], safe: bool
) -> None:
    assert is_safe(tmp_path, capsys, FIELD.format(**(PLAIN | parts)), FIELD_WAIT) is safe


@pytest.mark.parametrize(
    ("other", "safe"),
    [
        ("class Alone:\n    def stop(self):\n        self.s = None\n", True),
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
    assert is_safe(tmp_path, capsys, FIELD.format(**PLAIN), FIELD_WAIT) is safe


def test_the_field_of_an_object_that_is_made_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "w = Worker()\nwith torch.cuda.stream(w.s):\n    y = x * 2\nreturn y.sum()"
    text = FIELD.format(**(PLAIN | {"below": f"def twice(x: torch.Tensor):\n    {lines(body)}"}))
    assert is_safe(tmp_path, capsys, text, "torch.cuda.current_stream().wait_stream(w.s)")


PLACE = """\
import contextlib
import torch
from torch.cuda import Stream


@contextlib.contextmanager
def quietly():
    yield


class Swallows:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True


{above}def run(x: torch.Tensor, path: str):
{body}
"""
WORK = "with torch.cuda.stream(s):\n    y = x * 2\nreturn y.sum()"


@pytest.mark.parametrize(
    ("above", "body", "safe"),
    [
        ("", f"s = Stream()\nif path:\n    {lines(WORK)}\nreturn x", True),
        ("", f"s = Stream()\nwith torch.no_grad():\n    {lines(WORK)}", True),
        ("", f"with torch.no_grad():\n    s = Stream()\n{WORK}", True),
        ("@torch.no_grad()\n", f"s = Stream()\n{WORK}", True),
        ("@quietly\n", f"s = Stream()\n{WORK}", False),
        ("", f"s = Stream()\nwith open(path):\n    {lines(WORK)}", False),
        ("", f"s = Stream()\ntry:\n    {lines(WORK)}\nexcept OSError:\n    return None", False),
        ("", f"with contextlib.suppress(OSError):\n    open(path)\n    s = Stream()\n{WORK}", False),
        ("", f"with Swallows():\n    open(path)\n    s = Stream()\n{WORK}", False),
        ("", f"s = Stream()\nyield x\n{WORK}", False),
    ],
)
def test_a_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], above: str, body: str, safe: bool
) -> None:
    assert is_safe(tmp_path, capsys, PLACE.format(above=above, body=f"    {lines(body)}")) is safe


IMPORTS = """\
from typing import TYPE_CHECKING

{first}


def run(x):
    {inside}
    s = {made}
    with {entered}(s):
        y = x * 2
    {then}
    return y.sum()
"""
NAMED = {"inside": "pass", "made": "torch.cuda.Stream()", "entered": "torch.cuda.stream", "then": "pass"}


@pytest.mark.parametrize(
    ("parts", "safe"),
    [
        ({"first": "import torch"}, True),
        ({"first": "import torch\nimport torch.cuda"}, True),
        ({"first": "try:\n    import torch\nexcept ImportError:\n    torch = None"}, False),
        ({"first": "import torch", "then": "torch = None"}, False),
        ({"first": "import torch", "then": "torch.cuda = None"}, False),
        ({"first": "import torch", "then": "del torch"}, False),
        (
            {
                "first": "if TYPE_CHECKING:\n    import torch",
                "inside": "from torch.cuda import Stream, stream",
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
    (tmp_path / "code.py").write_text(IMPORTS.format(**(NAMED | parts)))
    assert (f"+    {WAIT}" in fixed(tmp_path / "code.py", capsys)) is safe


@pytest.mark.parametrize(
    ("made", "safe"),
    [("cuda.stream()", True), ("cuda.stream() if on else 0", False), ("0", False), ("ZERO", False)],
)
def test_a_number_has_no_methods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: str, safe: bool
) -> None:
    """It stands for the default stream with Numba."""
    (tmp_path / "code.py").write_text(f"""\
from numba import cuda

ZERO = 0


def run(x, on):
    s = {made}
    p = cuda.pinned_array(x.shape, x.dtype)
    d = cuda.to_device(x, stream=s)
    d.copy_to_host(p, stream=s)
    return float(p[0])
""")
    assert ("+    s.synchronize()" in fixed(tmp_path / "code.py", capsys)) is safe


@pytest.mark.parametrize(
    ("made", "line", "safe"),
    [
        ("pass", 'h = x.to("cpu", non_blocking=True)', False),
        ("pass", 'h = x.to("cpu", non_blocking=True) if torch.cuda.is_available() else x', False),
        ('x = torch.ones(4, device="cuda")', 'h = x.to("cpu", non_blocking=True)', True),
        ("h = torch.empty(4, pin_memory=True)", "h.copy_(x, non_blocking=True)", True),
        ("if on:\n        x = x.cuda()", 'h = x.to("cpu", non_blocking=True)', False),
    ],
)
def test_the_host_waits_where_there_is_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: str, line: str, safe: bool
) -> None:
    """``torch.cuda.current_stream()`` fails without one, where the program may have gone on."""
    body = f"{made}\n    {line}\n    return h.tolist()"
    text = f"import torch\n\n\ndef run(x: torch.Tensor, on: bool):\n    {body}\n"
    assert is_safe(tmp_path, capsys, text, "torch.cuda.current_stream().synchronize()") is safe


@pytest.mark.parametrize(
    ("helper", "kernel", "safe"),
    [
        ("return flag[0]", "i = cuda.grid(1)\n    out[i] = flag[0] * 2", True),
        ("return flag[0]", "for i in range(4):\n        out[i] = read(flag) * 2", True),
        ("return flag[0]", "while flag[0] == 0:\n        pass\n    out[0] = flag[0]", False),
        ("while flag[0] == 0:\n        pass\n    return flag[0]", "out[0] = read(flag)", False),
    ],
)
def test_a_kernel_that_polls_is_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], helper: str, kernel: str, safe: bool
) -> None:
    """The host sets the flag for which the kernel waits: it must not wait for the kernel before."""
    text = f"""\
from numba import cuda
import numpy as np


@cuda.jit(device=True)
def read(flag):
    {helper}


@cuda.jit
def kernel(flag, out):
    {kernel}


def run(out):
    s = cuda.stream()
    flag = cuda.mapped_array(1, dtype=np.int32)
    kernel[1, 1, s](flag, out)
    flag[0] = 1
    s.synchronize()
"""
    assert is_safe(tmp_path, capsys, text, "s.synchronize()\n     flag[0] = 1") is safe


@pytest.mark.parametrize(
    ("code", "safe"), [("y[0] = f[0];", True), ("while (*f == 0) {} y[0] = f[0];", False)]
)
def test_nor_one_in_cuda(tmp_path: Path, capsys: pytest.CaptureFixture[str], code: str, safe: bool) -> None:
    text = f"""\
import cupy as cp

k = cp.RawKernel('extern "C" __global__ void k(volatile int *f, int *y) {{ {code} }}', "k")


def run(f, y):
    s, t = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    with s:
        k((1,), (1,), (f, y))
    with t:
        y *= 2
    s.synchronize()
    t.synchronize()
"""
    assert is_safe(tmp_path, capsys, text, "cp.cuda.get_current_stream().wait_event(s.record())") is safe


CAPTURE = "import torch, code_\n\ndef c(g, x):\n    with torch.cuda.graph(g):\n"


@pytest.mark.parametrize(
    ("other", "safe"),
    [
        (
            "import torch, code_\n\ndef f(g, x):\n    with torch.cuda.graph(g):\n        code_.run(x, 1)\n",
            False,
        ),
        (f"{CAPTURE}        f(x)\n\ndef f(x):\n    code_.run(x, 1)\n", False),
        (f"{CAPTURE}        x()\n\ndef f(g):\n    c(g, code_.run)\n", False),
        ("import code_\n\ndef f(g, x):\n    code_.run(x, True)\n", True),
        ("import torch\n\ndef f(g, x):\n    with torch.cuda.graph(g):\n        return x * 2\n", True),
    ],
)
def test_a_function_that_may_be_captured(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    other: str,
    safe: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.py").write_text(other.replace("code_", "code"))
    text = RUN.format(parameter="", made="s = torch.cuda.Stream()", then="pass")
    assert is_safe(tmp_path, capsys, text) is safe


@pytest.mark.parametrize(("device", "safe"), [("", True), ("1", False)])
def test_an_event_is_recorded_on_its_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str, safe: bool
) -> None:
    text = f"""\
import cupy as cp


def run(x):
    s = cp.cuda.Stream()
    with cp.cuda.Device({device}):
        with s:
            y = x * 2
    return y + 1
"""
    assert is_safe(tmp_path, capsys, text, "cp.cuda.get_current_stream().wait_event(s.record())") is safe


def test_a_function_that_the_library_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``cupyx`` is of CuPy, and has no ``get_current_stream``."""
    text = """\
import cupyx
from cupy.cuda import Stream


def run(x):
    s = Stream(non_blocking=True)
    y = x * 2
    h = cupyx.empty_pinned(x.shape, x.dtype)
    with s:
        y.get(out=h, blocking=False)
    s.synchronize()
    return h.sum()
"""
    (tmp_path / "code.py").write_text(text)
    assert "cupyx.get_current_stream" not in fixed(tmp_path / "code.py", capsys, "--unsafe-fixes")


@pytest.mark.parametrize(
    ("made", "safe"),
    [
        ('torch.empty(4, device="cuda")', True),
        ("x.cuda() * 2", True),
        ("x * 2", False),
        ('torch.empty(4, device="cuda") if on else torch.empty(4)', False),
    ],
)
def test_a_tensor_of_a_gpu_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: str, safe: bool
) -> None:
    """``record_stream`` of a tensor on the host raises an error."""
    text = f"""\
import torch


def run(x: torch.Tensor, on: bool):
    s = torch.cuda.Stream()
    y = {made}
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        z = y * 2
    del y
    w = torch.empty(4, device="cuda").fill_(1)
    torch.cuda.current_stream().wait_stream(s)
    return z + w
"""
    assert is_safe(tmp_path, capsys, text, "y.record_stream(s)") is safe


def test_a_star_is_no_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = RUN.format(parameter="", made="s = torch.cuda.Stream()", then="pass")
    (tmp_path / "code.py").write_text(
        text.replace("import torch\n", "import torch\nfrom torch.cuda import *\n")
    )
    assert f"+    {WAIT}" in fixed(tmp_path / "code.py", capsys)


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
