"""Streams and events are known where the source says which they are, in whatever way it says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.interp.entries import starts
from streamlint.run import engine
from streamlint.run.session import Session
from streamlint.trace import Copy, StreamKind
from tests.test_tree import lines, written

if TYPE_CHECKING:
    from pathlib import Path


def unknown(root: Path, texts: dict[str, str], function: str) -> set[str] | None:
    """The streams and events from outside in what a function of ``m`` issues; None if it issues nothing.

    Of several entries that reach the function the one with the fewest counts.
    """
    session = Session(root, tuple(written(root, texts)), engine.Settings(), {})
    module = session.project.module("m")
    assert module is not None
    found: list[set[str]] = []
    for run in starts.module_runs(session.project, module, StreamKind.LEGACY):
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


def resolved(root: Path, text: str, function: str) -> bool:
    return unknown(root, {"m.py": text}, function) == set()


HANDED = """\
import torch

class Layer:
    def __init__(self, config, side=None):
        self.side = side
        self.scale = config.scale

    def forward(self, x):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            y = x * self.scale
        torch.cuda.current_stream().wait_stream(self.side)
        return y

class Model:
    def __init__(self, config):
{made}
        self.layers = make_layers(config.layers, lambda i: {call})
"""


@pytest.mark.parametrize(
    ("made", "call"),
    [
        ("side = torch.cuda.Stream()", "Layer(config, side)"),
        ("side = torch.cuda.Stream() if config.overlap else None", "Layer(config, side=side)"),
        ("self.side = config.module.Stream()", "Layer(config, side=self.side)"),
        ("side, other = torch.cuda.Stream(), 1", "Layer(config, side)"),
        ("sides = [torch.cuda.Stream() for _ in range(config.n)]", "Layer(config, sides[0])"),
    ],
)
def test_what_a_constructor_is_passed(tmp_path: Path, made: str, call: str) -> None:
    text = HANDED.format(made=f"        {made}", call=call)
    assert resolved(tmp_path, text, "Layer.forward")
    # Nothing in sight passes one.
    assert not resolved(
        tmp_path, HANDED.format(made="        pass", call="Layer(config, config.side)"), "Layer.forward"
    )


def test_what_is_passed_on_by_classes_in_between(tmp_path: Path) -> None:
    text = HANDED.format(made="        side = torch.cuda.Stream()", call="Block(config, side)")
    text += """
class Base:
    def __init__(self, config, side):
        self.layer = self.build(config, side)

    def build(self, config, side):
        return Layer(config, side)

class Block(Base):
    pass
"""
    assert resolved(tmp_path, text, "Layer.forward")


def test_what_a_function_or_method_gives(tmp_path: Path) -> None:
    text = """\
import torch

_STREAMS = {}

def named(name):
    if name not in _STREAMS:
        _STREAMS[name] = torch.cuda.Stream()
    return _STREAMS[name]

def planned(on):
    if on:
        side = torch.cuda.Stream()
        return side, torch.cuda.stream(side)
    return None, nullcontext()

class Worker:
    def __init__(self, config):
        config.check(self)
        raise config.error

    def open(self, config):
        self.plan, self.plan_stream_ctx = planned(config.on)
        self.side = named("side")

    def enter(self, x):
        with self.plan_stream_ctx:
            x.add_(1)

    def use(self, x):
        self.plan.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            x.add_(1)

def use(x):
    with torch.cuda.stream(named("side")):
        x.add_(1)
"""
    for function in ("use", "Worker.enter", "Worker.use"):
        assert resolved(tmp_path, text, function), function


def test_elements_of_a_container_that_another_method_fills(tmp_path: Path) -> None:
    text = """\
import queue
import torch
from collections import deque

class Ring:
    def __init__(self):
        self.done = deque()
        self.streams = {}
        self.work = queue.Queue()

    def push(self, x, device):
        ready = torch.cuda.Event()
        ready.record()
        self.done.append((ready, x))
        self.work.put((x, ready))
        self.streams[device] = torch.cuda.Stream()

    def pop(self):
        ready, x = self.done[0]
        ready.wait()
        return x

    def take(self):
        x, ready = self.work.get()
        ready.wait()
        return x

    def on(self, x, device):
        with torch.cuda.stream(self.streams[device]):
            x.add_(1)
"""
    for function in ("Ring.pop", "Ring.take", "Ring.on"):
        assert resolved(tmp_path, text, function), function


def test_an_argument_of_a_known_class(tmp_path: Path) -> None:
    text = """\
import torch
from dataclasses import dataclass

class Ring:
    def __init__(self, config):
        self.side = torch.cuda.Stream()

@dataclass
class State:
    side: torch.cuda.Stream

def make(config):
    return State(side=torch.cuda.Stream())

def by_class(x, ring: Ring):
    with torch.cuda.stream(ring.side):
        x.add_(1)

def by_option(x, ring: "Ring | None" = None):
    ring.side.wait_stream(torch.cuda.current_stream())

def by_dataclass(x, state: State):
    with torch.cuda.stream(state.side):
        x.add_(1)

def by_stream(x, side: torch.cuda.Stream):
    with torch.cuda.stream(side):
        x.add_(1)
"""
    for function in ("by_class", "by_dataclass"):
        assert resolved(tmp_path, text, function), function
    # An annotation says what it is, and not which.
    assert not resolved(tmp_path, text, "by_stream")


def test_a_handle_that_nothing_is_known_of(tmp_path: Path) -> None:
    text = """\
import torch
from elsewhere import handle_of

class Context:
    def open(self, device: torch.Tensor):
        self.handle = handle_of(device)
        self.side = self.handle.Stream(priority=-1)
        with torch.cuda.stream(self.side):
            device.add_(1)
"""
    assert resolved(tmp_path, text, "Context.open")


def test_what_made_a_stream_long_before_orders_nothing_now(tmp_path: Path) -> None:
    """The synchronization in ``named`` was carried out when the model was made."""
    text = """\
import torch

def named():
    torch.cuda.synchronize()
    return torch.cuda.Stream()

class Layer:
    def __init__(self, config, side):
        self.side = side

    def forward(self):
        x = torch.ones(3, device="cuda")
        with torch.cuda.stream(self.side):
            y = x * 2
        torch.cuda.current_stream().wait_stream(self.side)
        return y

class Model:
    def __init__(self, config):
        self.layers = make_layers(config, lambda: Layer(config, named()))
"""
    files = written(tmp_path, {"m.py": text})
    assert ("SL101", "m.py", 14) in lines(tmp_path, files)


def test_an_object_of_unknown_make_is_one_stream_each_time(tmp_path: Path) -> None:
    text = """\
from cuda.bindings import runtime as cudart

class Lane:
    def __init__(self, make):
        self.made = make()

def run(make, a, b, n):
    lane = Lane(make)
    kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
    cudart.cudaMemcpyAsync(a, b, n, kind, lane)
    cudart.cudaMemcpyAsync(b, a, n, kind, lane)
"""
    session = Session(tmp_path, tuple(written(tmp_path, {"m.py": text})), engine.Settings(), {})
    module = session.project.module("m")
    assert module is not None
    traces = [
        trace
        for run in starts.module_runs(session.project, module, StreamKind.LEGACY)
        for trace in run.traces
    ]
    copies = [op.stream for trace in traces for op in trace.ops if isinstance(op, Copy)]
    assert len(copies) == 2
    assert len(set(copies)) == 1
