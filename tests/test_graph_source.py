"""What a capture takes up and what a launch of the graph uses, as read from source."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from streamlint.interp.state.captures import MOST_REGIONS
from streamlint.run import engine

if TYPE_CHECKING:
    from pathlib import Path

START = """
import torch

def make(v):
    return torch.full((1 << 20,), v, device="cuda")

def capture(graph, x, **options):
    with torch.cuda.graph(graph, **options):
        y = x * 2 + 1
    return y

def helper(x, out):
    out.copy_(x)

"""

BEFORE = """
side = torch.cuda.Stream()
graph, other = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
x, out = make(1.0), make(0.0)
torch.cuda.synchronize()
"""


def codes(tmp_path: Path, body: str, before: str = "") -> list[tuple[str, str]]:
    """Codes and confidence of what is found in a function with two graphs, ``x`` and ``out`` at hand."""
    text = f"{START}{textwrap.dedent(before)}\ndef run():\n"
    text += textwrap.indent(BEFORE.strip("\n") + "\n" + textwrap.dedent(body).strip("\n"), "    ")
    file = tmp_path / "program.py"
    file.write_text(text + "\n    torch.cuda.synchronize()\n    return x, out\n")
    report = engine.analyze(tmp_path, [file], engine.Settings())
    assert not report.errors
    return sorted({(finding.code, finding.confidence.value) for finding in report.findings} - SL9)


SL9 = {(f"SL90{i}", sure) for i in range(1, 6) for sure in ("certain", "likely", "possible")}
REFILL = "\nwith torch.cuda.stream(side):\n    x.fill_(3.0)\ngraph.replay()"

CAPTURED = {
    "a helper": "with torch.cuda.graph(graph):\n    helper(x, out)",
    "a helper of a helper": "y = capture(graph, x)",
    "a forked stream": (
        "with torch.cuda.graph(graph):\n"
        "    now = torch.cuda.current_stream()\n"
        "    fork = torch.cuda.Stream()\n"
        "    fork.wait_stream(now)\n"
        "    with torch.cuda.stream(fork):\n"
        "        out.copy_(x)\n"
        "    now.wait_stream(fork)"
    ),
    "a named stream": "y = capture(graph, x, stream=side)",
    "a second capture into the graph": "y = capture(graph, out)\nz = capture(graph, x)",
    "a graph in a list": "graphs = [graph]\ny = capture(graphs[0], x)",
    "a graph in a dict": "graphs = {}\ngraphs[len(out)] = graph\ny = capture(graphs[len(out)], x)",
}


@pytest.mark.parametrize("captured", CAPTURED.values(), ids=CAPTURED)
def test_what_is_captured_is_used_by_the_launch(tmp_path: Path, captured: str) -> None:
    assert codes(tmp_path, captured + REFILL) == [("SL504", "certain")]


NOT_CAPTURED = {
    "nothing": "",
    "another graph": "y = capture(other, x)",
    "another input": "y = capture(graph, out)",
    "a graph that was reset": "y = capture(graph, x)\ngraph.reset()",
    "a second capture without it": "y = capture(graph, x)\nz = capture(graph, out)",
    "only before the capture": "y = x * 2\ntorch.cuda.synchronize()\nz = capture(graph, out)",
}


@pytest.mark.parametrize("captured", NOT_CAPTURED.values(), ids=NOT_CAPTURED)
def test_what_is_not_captured_is_not(tmp_path: Path, captured: str) -> None:
    assert codes(tmp_path, captured + REFILL) == []


def test_captured_work_does_not_run(tmp_path: Path) -> None:
    assert codes(tmp_path, "with torch.cuda.stream(side):\n    x.fill_(3.0)\ny = capture(graph, x)") == []


def test_work_of_a_graph_that_waits_for_an_event_from_outside_is_no_graph(tmp_path: Path) -> None:
    body = """
        done = torch.cuda.Event()
        with torch.cuda.stream(side):
            x.fill_(3.0)
            done.record()
        with torch.cuda.graph(graph):
            torch.cuda.current_stream().wait_event(done)
            out.copy_(x)
        graph.replay()
    """
    assert [code for code, _ in codes(tmp_path, body)] == ["SL503"]


@pytest.mark.parametrize(("slots", "sure"), [(3, "certain"), (MOST_REGIONS.number + 1, "possible")])
def test_many_places_of_one_buffer_are_summed_up(tmp_path: Path, slots: int, sure: str) -> None:
    lines = [f"    out[{i}].copy_(x[{i}])" for i in range(slots)]
    body = "with torch.cuda.graph(graph):\n" + "\n".join(lines) + REFILL.replace("x.fill_", "x[0].fill_")
    assert codes(tmp_path, body) == [("SL504", sure)]


def test_places_of_one_buffer_are_kept_apart(tmp_path: Path) -> None:
    body = "with torch.cuda.graph(graph):\n    out[0].copy_(x[0])" + REFILL.replace("x.fill_", "x[1].fill_")
    assert codes(tmp_path, body) == []


POOLS = {
    "its own": ("", []),
    "the other's": ("pool=graph.pool()", [("SL504", "certain")]),
    "a handle": ("pool=HANDLE", [("SL504", "certain")]),
    "unknown": ("pool=POOL", [("SL504", "possible")]),
}


@pytest.mark.parametrize(("option", "found"), POOLS.values(), ids=POOLS)
def test_graphs_that_share_a_pool(tmp_path: Path, option: str, found: list[tuple[str, str]]) -> None:
    first = option if option in ("pool=HANDLE", "pool=POOL") else ""
    body = f"""
        y = capture(graph, x, {first})
        z = capture(other, x, {option})
        graph.replay()
        with torch.cuda.stream(side):
            other.replay()
    """
    before = "from elsewhere import POOL\nHANDLE = torch.cuda.graph_pool_handle()\n"
    assert codes(tmp_path, body, before) == found


DROPS = {
    "rebound": ("y = capture(graph, x)\nx = make(3.0)\ngraph.replay()", True),
    "deleted": ("z = make(2.0)\ny = capture(graph, z)\ndel z\ngraph.replay()", True),
    "a temporary": ("y = capture(graph, make(2.0))\ngraph.replay()", True),
    "held by a list": ("zs = [make(2.0)]\ny = capture(graph, zs[0])\ngraph.replay()", False),
    "held by a view": ("z = make(2.0)\ny = capture(graph, z)\nv = z[1:]\ndel z\ngraph.replay()", False),
    "made during the capture": ("y = capture(graph, x)\ndel y\ngraph.replay()", False),
    "dropped after the launch": ("z = make(2.0)\ny = capture(graph, z)\ngraph.replay()\ndel z", False),
}


@pytest.mark.parametrize(("body", "found"), DROPS.values(), ids=DROPS)
def test_captured_memory_that_is_dropped(tmp_path: Path, body: str, found: bool) -> None:
    assert codes(tmp_path, body) == ([("SL504", "certain")] if found else [])
