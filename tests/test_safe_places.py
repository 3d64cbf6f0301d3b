"""A safe fix stands in straight code, where all that it names is there, and on one device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint import cli
from tests.safe_fixes import RUN, WAIT, fixed, is_safe, lines

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.parametrize(("device", "safe"), [("", True), ("1", False)])
def test_an_event_is_recorded_on_its_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str, safe: bool
) -> None:
    text = f"""\
import cupy as cp


def run(x):
    s = cp.cuda.Stream(non_blocking=True)
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
        ('torch.empty(4, device="cuda") * 2', True),
        ("x.cuda() * 2", False),
        ('torch.empty(4, device="cuda", layout=torch.sparse_coo)', False),
        ('torch.zeros_like(x, device="cuda")', False),
        ("x * 2", False),
        ('torch.empty(4, device="cuda") if on else torch.empty(4)', False),
    ],
)
def test_a_tensor_of_a_gpu_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: str, safe: bool
) -> None:
    """``record_stream`` of a tensor on the host, and of a sparse one, raises an error."""
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
