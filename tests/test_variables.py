"""Streams that other code has set up: module variables, attributes of other methods, earlier calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlint import ir
from streamlint.finding import Confidence, leading
from streamlint.interp.entries.construction import Construction
from streamlint.lower import index_module
from streamlint.run import engine
from tests.test_tree import lines, written

RACE = """\
    x = torch.ones(3, device="cuda")
    with torch.cuda.stream({stream}):
        y = x * 2
    torch.cuda.current_stream().wait_stream({stream})
    return x, y
"""
SAFE = """\
    x = torch.ones(3, device="cuda")
    {stream}.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream({stream}):
        y = x * 2
    torch.cuda.current_stream().wait_stream({stream})
    return x, y
"""

STREAMS = """\
import torch

SIDE = torch.cuda.Stream()
FIRST, SECOND = torch.cuda.Stream(), torch.cuda.Stream()
device_module, name = find_device()
_LATER = None

def set_up(stream=None):
    global _LATER
    _LATER = stream if stream is not None else torch.cuda.Stream()

def later():
    return _LATER
"""


@pytest.mark.parametrize(
    ("imported", "stream"),
    [
        ("from .streams import SIDE", "SIDE"),
        ("from .streams import SIDE as S", "S"),
        ("from . import streams", "streams.SECOND"),
        ("from package.streams import FIRST", "FIRST"),
        ("import package.streams", "package.streams.SIDE"),
        ("from .streams import later", "later()"),
        ("from .streams import device_module", "device_module.Stream()"),
        ("from .reexported import SIDE", "SIDE"),
    ],
)
def test_a_variable_of_another_module(tmp_path: Path, imported: str, stream: str) -> None:
    def files(body: str) -> list[Path]:
        use = f"import torch\n{imported}\n\ndef run():\n    s = {stream}\n{body.format(stream='s')}"
        texts = {
            "package/__init__.py": "",
            "package/streams.py": STREAMS,
            "package/reexported.py": "from .streams import SIDE\n",
            "package/use.py": use,
        }
        return written(tmp_path, texts)

    assert lines(tmp_path, files(RACE)) == [("SL101", "package/use.py", 8)]
    assert lines(tmp_path, files(SAFE)) == []


def test_only_an_assignment_sets_a_global() -> None:
    text = "X = None\n\ndef get():\n    global X\n    return X\n\ndef put(x):\n    global X\n    X = x\n"
    functions = index_module(text, "m.py", "m", is_package=False).functions
    assert {name: sorted(f.globals) for name, f in functions.items()} == {"get": [], "put": ["X"]}


METHODS = """\
import torch

class Loader:
    def __init__(self, reader):
        self.reader = reader
        self.side = torch.cuda.Stream()
        self.batch = None
        self.state = "idle"
        self.ready = []

    def load(self):
        self.batch = self.reader.read()
        self.ready.append(self.batch)
        self.state = "loaded"

    {method}
"""


@pytest.mark.parametrize(
    "guard",
    [
        "assert self.batch is not None",
        'if self.state != "loaded": raise RuntimeError(self.state)',
        "if not self.ready: return None",
    ],
)
def test_a_method_that_needs_an_earlier_call(tmp_path: Path, guard: str) -> None:
    def files(wait: str) -> list[Path]:
        method = f"""\
def total(self):
        {guard}
        x = torch.ones(3, device="cuda")
        {wait}
        with torch.cuda.stream(self.side):
            y = x * 2
        torch.cuda.current_stream().wait_stream(self.side)
        return x, y
"""
        return written(tmp_path, {"loader.py": METHODS.format(method=method)})

    # Nor does the stream wait before it gets back, in the next call, what the caller has used by then.
    assert lines(tmp_path, files("pass")) == [("SL101", "loader.py", 21), ("SL401", "loader.py", 23)]
    assert lines(tmp_path, files("self.side.wait_stream(torch.cuda.current_stream())")) == []


def test_unknown_keywords_may_hold_anything(tmp_path: Path) -> None:
    text = """\
import torch

def run(**options):
    if "scale" not in options:
        raise ValueError(options)
    side = torch.cuda.Stream()
    x = torch.ones(3, device="cuda")
    with torch.cuda.stream(side):
        y = x * options["scale"]
    return x, y
"""
    assert ("SL101", "run.py", 9) in lines(tmp_path, written(tmp_path, {"run.py": text}))


# ----------------------------------------------------------------------------- objects made once

FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.mark.parametrize(
    "name", ["torch/sl101_classes.py", "idioms/i02_class_methods.py", "idioms/i10_pipelines.py"]
)
def test_a_kept_constructor_leaves_what_a_new_one_would(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def findings() -> list[object]:
        report = engine.analyze(FIXTURES, [FIXTURES / name], engine.Settings())
        return [(f.code, f.primary, f.message, f.confidence) for f in report.findings]

    kept = findings()
    monkeypatch.setattr(Construction, "_keep", lambda *_: None)
    assert findings() == kept


def test_a_closure_that_counts_is_not_shared_between_paths(tmp_path: Path) -> None:
    text = """\
import torch

class Ring:
    def __init__(self):
        self.side = torch.cuda.Stream()
        count = 0

        def following():
            nonlocal count
            count += 1
            return count

        self.following = following

    def step(self, flag):
        number = self.following()
        x = torch.ones(3, device="cuda")
        if flag:
            self.side.wait_stream(torch.cuda.current_stream())
        if number != 1:
            return x
        with torch.cuda.stream(self.side):
            y = x * 2
        torch.cuda.current_stream().wait_stream(self.side)
        return x, y
"""
    # Every path starts with a count of 0, so the first call of each comes to the unordered read.
    assert lines(tmp_path, written(tmp_path, {"ring.py": text})) == [("SL101", "ring.py", 23)]


def test_walk_does_not_enter_definitions() -> None:
    text = "def f(a):\n    b = a.c(1)\n    def g():\n        return hidden\n    return b\n"
    function = index_module(text, "m.py", "m", is_package=False).functions["f"].load()
    names = {node.id for node in ir.walk(function.body) if isinstance(node, ir.Name)}
    assert names == {"a", "b"}


EVENTS = """\
import torch

class Loader:
    def __init__(self):
        self.side = torch.cuda.Stream()
        self.state = "idle"

    def load(self):
        self.state = "loaded"
        self.loaded = torch.cuda.Event()
        self.loaded.record(self.side)

    def wait(self):
        if self.state != "loaded":
            raise RuntimeError(self.state)
        torch.cuda.current_stream().wait_event(self.loaded)

DONE = torch.cuda.Event()

def finish():
    DONE.record()

def wait():
    torch.cuda.current_stream().wait_event(DONE)
"""


def test_other_code_may_have_recorded_the_event(tmp_path: Path) -> None:
    assert lines(tmp_path, written(tmp_path, {"events.py": EVENTS})) == []


def test_one_missing_wait_is_one_finding_however_it_is_reached(tmp_path: Path) -> None:
    text = """\
import torch

class Offload:
    def __init__(self):
        self.side = torch.cuda.Stream()

    def one(self, x: torch.Tensor, out: torch.Tensor):
        with torch.cuda.stream(self.side):
            out.copy_(x)
        torch.cuda.current_stream().wait_stream(self.side)

    def all(self, x: torch.Tensor, out: torch.Tensor):
        print(self)
        self.one(x, out)
"""
    report = engine.analyze(tmp_path, written(tmp_path, {"offload.py": text}), engine.Settings())
    shown = [(f.code, f.primary.line) for f in leading(report.findings)]
    assert shown.count(("SL101", 9)) == 1


def test_a_caller_of_cuda_python_has_no_current_stream(tmp_path: Path) -> None:
    text = """\
from cuda.bindings import runtime as cudart

class Reader:
    def __init__(self, size):
        self.size = size
        self.stream = cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking)[1]
        self.done = cudart.cudaEventCreate()[1]
        self.host = cudart.cudaMallocHost(size)[1]

    def start(self, src):
        kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        cudart.cudaMemcpyAsync(self.host, src, self.size, kind, self.stream)
        cudart.cudaEventRecord(self.done, self.stream)
"""
    report = engine.analyze(tmp_path, written(tmp_path, {"reader.py": text}), engine.Settings())
    assert (report.analyzed, report.errors) == (1, ())
    assert {f.confidence for f in report.findings} <= {Confidence.POSSIBLE}
