"""Which references a program drops, as read from its source."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from streamlint.run import engine

if TYPE_CHECKING:
    from pathlib import Path


START = """
import contextlib
import torch

def make(v):
    return torch.full((1 << 20,), v, device="cuda")

def use(out, x, side):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        out.copy_(x)

def used(out, side):
    x = make(7.0)
    use(out, x, side)
    return x

def holder(x):
    def inner():
        y = make(9.0)
        z = make(9.0)
        return x
    return inner
"""


def codes(tmp_path: Path, body: str, before: str = "") -> list[tuple[str, str]]:
    """Codes and confidence of what is found in a function with ``out`` and ``side`` at hand."""
    lines = ["def run():", "    side = torch.cuda.Stream()", "    out = torch.zeros(1 << 20, device='cuda')"]
    text = START + textwrap.dedent(before) + "\n" + "\n".join(lines) + "\n"
    text += textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n    torch.cuda.synchronize()\n"
    file = tmp_path / "program.py"
    file.write_text(text)
    report = engine.analyze(tmp_path, [file], engine.Settings())
    assert not report.errors
    return [(finding.code, finding.confidence.value) for finding in report.findings]


DROPS = {
    "del": "x = make(7.0); use(out, x, side); del x; y = make(9.0)",
    "rebinding": "x = make(7.0); use(out, x, side); x = None; y = make(9.0)",
    "a list cleared": "xs = [make(7.0)]; use(out, xs[0], side); xs.clear(); y = make(9.0)",
    "an element deleted": "d = {'a': make(7.0)}; use(out, d['a'], side); del d['a']; y = make(9.0)",
    "an argument": "use(out, make(7.0), side); y = make(9.0)",
    "a view of it dropped": "x = make(7.0); v = x[3:]; use(out, v, side); del x; del v; y = make(9.0)",
}


@pytest.mark.parametrize("body", DROPS.values(), ids=DROPS.keys())
def test_dropped(tmp_path: Path, body: str) -> None:
    assert [code for code, _ in codes(tmp_path, body)] == ["SL401"]


ALIVE = {
    "a name": "x = make(7.0); use(out, x, side); y = make(9.0)",
    "another name": "x = make(7.0); z = x; use(out, x, side); del x; y = make(9.0)",
    "a view": "x = make(7.0); v = x[3:]; use(out, x, side); del x; y = make(9.0)",
    "a list": "x = make(7.0); xs = [x]; use(out, x, side); del x; y = make(9.0)",
    "a nested list": "x = make(7.0); xs = {'a': [(x, 1)]}; use(out, x, side); del x; y = make(9.0)",
    "an attribute": "x = make(7.0); out.hold = x; use(out, x, side); del x; y = make(9.0)",
    "a closure": "x = make(7.0); f = holder(x); use(out, x, side); del x; y = make(9.0)",
    "a closure that runs": "holder(used(out, side))()",
    "the loop": "for x in [make(7.0)]:\n    use(out, x, side)\n    x = None\n    y = make(9.0)",
    "a conversion that may be the same": (
        "x = make(7.0); z = x.contiguous(); use(out, x, side); del x; y = make(9.0)"
    ),
}


@pytest.mark.parametrize("body", ALIVE.values(), ids=ALIVE.keys())
def test_alive(tmp_path: Path, body: str) -> None:
    assert codes(tmp_path, body) == []


def test_alive_in_a_context(tmp_path: Path) -> None:
    before = """
    class Hold:
        def __init__(self, x):
            self.x = x
        def __enter__(self):
            return self
        def __exit__(self, *args):
            pass
    """
    body = "x = make(7.0)\nuse(out, x, side)\nwith Hold(x):\n    del x\n    y = make(9.0)\n"
    assert codes(tmp_path, body, before) == []


def test_an_argument_in_flight_is_alive(tmp_path: Path) -> None:
    before = """
    def first(x, y):
        return x

    def more():
        y = make(9.0)
        z = make(9.0)
        return y
    """
    assert codes(tmp_path, "z = first(used(out, side), more())", before) == []


def test_unresolved_code_may_keep_a_reference(tmp_path: Path) -> None:
    body = "x = make(7.0); use(out, x, side); unknown(x); del x; y = make(9.0)"
    assert codes(tmp_path, body, "from elsewhere import unknown") == [("SL401", "possible")]


@pytest.mark.parametrize(("gone", "confidence"), [("del z", "likely"), ("del x, z", "certain")])
def test_a_conversion_may_be_its_operand_which_lives_on(tmp_path: Path, gone: str, confidence: str) -> None:
    body = f"x = make(7.0); z = x.float(); use(out, z, side); {gone}; y = make(9.0)"
    assert codes(tmp_path, body) == [("SL401", confidence)]


TRAINING = "x = make(7.0).requires_grad_(); w = x * x; use(out, x, side); del x; y = make(9.0)"


def test_autograd_may_keep_an_operand(tmp_path: Path) -> None:
    assert codes(tmp_path, TRAINING) == [("SL401", "possible")]


def test_without_gradients_no_operand_is_kept(tmp_path: Path) -> None:
    before = "@torch.inference_mode()\ndef main():\n    run()\n"
    assert [code for code, confidence in codes(tmp_path, TRAINING, before) if confidence != "possible"] == [
        "SL401"
    ]


CLASS = """
class Loader:
    def __init__(self):
        self.side = torch.cuda.Stream()
        self.out = torch.zeros(1 << 20, device="cuda")
        self.last = None

    def step(self):
        x = make(7.0)
        use(self.out, x, self.side)
        {}
"""


@pytest.mark.parametrize(
    ("last", "found"),
    [
        ("pass", ["SL401"]),
        ("x.record_stream(self.side)", []),
        ("return x", []),
        ("torch.cuda.current_stream().wait_stream(self.side)", []),
        # The reference of the last call goes when this call has allocated: its memory is free for the next.
        ("self.last = x", ["SL401"]),
    ],
)
def test_calls_from_outside(tmp_path: Path, last: str, found: list[str]) -> None:
    before = CLASS.format(last)
    assert [code for code, _ in codes(tmp_path, "pass", before)] == found


@pytest.mark.parametrize(
    ("gone", "found"), [("del x", ["SL401"]), ("x = None", ["SL401"]), ("z = x; del x", [])]
)
def test_names_of_a_script(tmp_path: Path, gone: str, found: list[str]) -> None:
    lines = (
        "side = torch.cuda.Stream()",
        "out = torch.zeros(1 << 20, device='cuda')",
        f"x = make(7.0); use(out, x, side); {gone}; y = make(9.0); torch.cuda.synchronize()",
    )
    file = tmp_path / "script.py"
    file.write_text(START + "\n".join(lines) + "\n")
    report = engine.analyze(tmp_path, [file], engine.Settings())
    assert [finding.code for finding in report.findings] == found


CUPY = """
import cupy as cp

def run():
    user, s = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    out = cp.zeros(1 << 20)
    cp.cuda.Device().synchronize()
    with s:
        x = cp.full(1 << 20, 7.0)
    done = s.record()
    user.wait_event(done)
    with user:
        cp.multiply(x, 2, out=out)
    {}
    del x
    with s:
        y = cp.full(1 << 20, 9.0)
    cp.cuda.Device().synchronize()
    return out, y
"""


@pytest.mark.parametrize(("join", "found"), [("pass", ["SL401"]), ("s.wait_event(user.record())", [])])
def test_a_pool_without_record_stream(tmp_path: Path, join: str, found: list[str]) -> None:
    file = tmp_path / "program.py"
    file.write_text(CUPY.format(join))
    report = engine.analyze(tmp_path, [file], engine.Settings())
    assert [finding.code for finding in report.findings] == found
