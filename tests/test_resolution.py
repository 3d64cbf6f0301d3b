"""Streams and events are known where the source says which they are, in whatever way it says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import engine
from streamlint.interp import entries
from streamlint.trace import StreamKind
from tests.test_tree import written

if TYPE_CHECKING:
    from pathlib import Path


def unknown(root: Path, texts: dict[str, str], function: str) -> set[str] | None:
    """The streams and events from outside in what a function of ``m`` issues; None if it issues nothing.

    Of several entries that reach the function the one with the fewest counts.
    """
    session = engine.Session(root, tuple(written(root, texts)), engine.Settings(), {})
    module = session.project.module("m")
    assert module is not None
    found: list[set[str]] = []
    for run in entries.module_runs(session.project, module, StreamKind.LEGACY):
        here: set[str] | None = None
        for trace in run.traces:
            for op in trace.ops[1:]:
                if op.at.function != function or getattr(op, "name", "") in (
                    "before the call",
                    "after the call",
                ):
                    continue
                here = here or set()
                stream, event = getattr(op, "stream", None), getattr(op, "event", None)
                if stream is not None and trace.streams[stream].kind is StreamKind.UNKNOWN:
                    here.add(trace.streams[stream].name)
                if event is not None and trace.events[event].span is None:
                    here.add(trace.events[event].name)
        if here is not None:
            found.append(here)
    return min(found, key=len, default=None)


def test_a_cast_is_its_argument(tmp_path: Path) -> None:
    text = """\
import torch
from typing import cast

def run(x):
    s = cast(torch.cuda.Stream, torch.cuda.Stream())
    with torch.cuda.stream(s):
        x.add_(1)
"""
    assert unknown(tmp_path, {"m.py": text}, "run") == set()


def test_an_own_current_stream_is_followed_when_nothing_calls_it(tmp_path: Path) -> None:
    text = """\
import torch

def current_stream():
    made = torch.cuda.Stream()
    made.wait_stream(torch.cuda.current_stream())
    return made
"""
    assert unknown(tmp_path, {"m.py": text}, "current_stream") == set()
