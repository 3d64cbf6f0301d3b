"""Pictures of hand-written traces, and of one program through the command."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import networkx as nx
import pytest

from streamlint import graph
from streamlint.graph import draw
from streamlint.graph.picture import picture
from streamlint.trace import StreamKind
from tests.traces import Program

if TYPE_CHECKING:
    from pathlib import Path

    from streamlint.trace import Trace

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


def nothing():
    return 1
"""


def racing(*, joined: bool = False) -> Trace:
    p = Program()
    a, b = p.stream(), p.stream()
    x, event = p.buffer(), p.event()
    p.launch(a, writes=x)
    p.record(a, event)
    if joined:
        p.wait(b, event)
    p.launch(b, reads=x)
    p.sync_device()
    return p.trace()


def test_a_race_is_drawn_and_its_order_is_not() -> None:
    bad, ok = picture(racing()), picture(racing(joined=True))
    assert [(race.earlier, race.later, race.label) for race in bad.races] == [(0, 2, "read after write: b0")]
    assert ok.races == ()


def test_columns_are_the_host_and_the_streams() -> None:
    drawn = picture(racing())
    kind = StreamKind.NON_BLOCKING.value
    assert [column.label for column in drawn.columns] == ["host", f"s0 ({kind})", f"s1 ({kind})"]
    assert [[node.op for node in column.nodes] for column in drawn.columns] == [[3], [0, 1], [2]]


def test_a_stream_ordered_allocation_stands_in_its_stream() -> None:
    p = Program()
    stream, x, y = p.stream(), p.buffer(), p.buffer()
    p.alloc(x, stream)
    p.alloc(y)
    columns = picture(p.trace()).columns
    assert [[node.title for node in column.nodes] for column in columns] == [
        ["allocation b1"],
        ["allocation b0"],
    ]


def test_a_doubtful_edge_beside_a_sure_one_is_left_out() -> None:
    p = Program()
    current, x = p.stream(StreamKind.CURRENT), p.buffer()
    p.alloc(x, current)
    p.launch(current, writes=x)
    drawn = picture(p.trace())
    doubtful = {(e.earlier, e.later) for e in drawn.edges if e.doubts}
    assert not doubtful & {(e.earlier, e.later) for e in drawn.edges if not e.doubts}


@pytest.mark.parametrize("joined", [False, True])
def test_dot_is_well_formed(joined: bool) -> None:
    text = draw([racing(joined=joined)], "dot")
    assert text.count("{") == text.count("}")
    assert text.count("subgraph cluster_") == 3
    declared = set(re.findall(r"^\s+(op\d+) \[", text, re.MULTILINE))
    used = {end for edge in re.findall(r"(op\d+) -> (op\d+)", text) for end in edge}
    assert used <= declared
    assert ("color=red" in text) is not joined


def test_dot_escapes_names() -> None:
    p = Program()
    stream = p.stream()
    p.streams[stream] = type(p.streams[stream])(stream, StreamKind.BLOCKING, "cur", 's["a\\b"]')
    p.launch(stream)
    assert r'label="s[\"a\\b\"] (blocking stream)"' in draw([p.trace()], "dot")


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_accepts_it() -> None:
    text = draw([racing(), racing(joined=True)], "dot")
    done = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, check=True)
    assert "read after write: b0" in done.stdout
    assert done.stderr == ""


def test_json_is_node_link_data() -> None:
    document: dict[str, Any] = json.loads(draw([racing()], "json"))
    (data,) = document["graphs"]
    loaded: nx.MultiDiGraph[int] = nx.MultiDiGraph(nx.node_link_graph(data, edges="edges"))
    assert sorted(loaded.nodes) == [0, 1, 2, 3]
    kinds: list[tuple[int, int, str]] = list(loaded.edges(data="kind"))
    assert [(u, v) for u, v, kind in kinds if kind == "conflict"] == [(0, 2)]
    assert loaded.nodes[0]["title"] == "kernel: writes b0"
    # Whoever asks only what is ordered must be able to leave the conflicts out.
    ordered: nx.DiGraph[int] = nx.DiGraph([(u, v) for u, v, kind in kinds if kind != "conflict"])
    assert not nx.has_path(ordered, 0, 2)
    assert nx.has_path(ordered, 0, 3)


def test_mermaid_links_and_styles() -> None:
    text = draw([racing()], "mermaid")
    links = [line for line in text.splitlines() if re.match(r"\s+op\d+ <?-", line)]
    assert '<-. "read after write: b0" .->' in links[-1]
    assert f"linkStyle {len(links) - 1} " in text
    assert text.count("subgraph") == text.count("  end")


def test_unknown_notation_is_an_error() -> None:
    with pytest.raises(KeyError):
        draw([racing()], "svg")


def run(tmp_path: Path, *arguments: str) -> int:
    (tmp_path / "program.py").write_text(PROGRAM, "utf-8")
    return graph.main([f"{tmp_path / 'program.py'}{arguments[0]}", *arguments[1:]])


def test_command_draws_a_function(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "::fork", "--format", "json") == 0
    (data,) = json.loads(capsys.readouterr().out)["graphs"]
    titles = {node["id"]: node["line"] for node in data["nodes"]}
    (conflict,) = [edge for edge in data["edges"] if edge["kind"] == "conflict"]
    assert (titles[conflict["source"]], titles[conflict["target"]]) == (8, 10)


@pytest.mark.parametrize(
    ("target", "reason"),
    [("", "FILE::function"), ("::missing", "no function missing"), ("::nothing", "does no GPU work")],
)
def test_command_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, reason: str
) -> None:
    assert run(tmp_path, target) == 2
    assert reason in capsys.readouterr().err


def test_command_needs_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert graph.main(["nowhere.py::f"]) == 2
    assert "nowhere.py is not a file" in capsys.readouterr().err
