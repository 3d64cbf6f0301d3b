"""An event that an object holds may be recorded by whoever has the object, in any file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence
from streamlint.run import engine
from tests.test_tree import written

if TYPE_CHECKING:
    from pathlib import Path

TABLE = """\
import torch

class Table:
    def __init__(self, n):
        self.staging = torch.ones(n, pin_memory=True)
        self.consumed = torch.cuda.Event()

    def stage(self, value):
        self.consumed.synchronize()
        self.staging.fill_(value)

"""
COORDINATOR = """\
class Coordinator:
    def __init__(self, tables):
        self.tables = tables

    def launched(self, stream):
        for table in self.tables:
            table.consumed.record(stream)
"""
PASSES_THEM_ON = """\
def launched(tables, mark):
    for event in [table.consumed for table in tables]:
        mark(event)
"""
OWN = """\
class Reader:
    def __init__(self):
        self.consumed = torch.cuda.Event()

    def step(self, stream):
        self.consumed.record(stream)
"""
ONLY_WAITS = """\
def drain(tables):
    for table in tables:
        if table.consumed is not None:
            table.consumed.synchronize()
"""
COUNTS = """\
def taken(account):
    account.consumed = 0
    return account.consumed == 3
"""


def found(root: Path, **files: str) -> list[str]:
    paths = written(root, {f"{name}.py": text for name, text in files.items()})
    report = engine.analyze(root, paths, engine.Settings())
    return [one.confidence.name.lower() for one in report.findings if one.primary.line == 9]


@pytest.mark.parametrize("others", [COORDINATOR, PASSES_THEM_ON])
def test_code_of_the_module_may_record_it(tmp_path: Path, others: str) -> None:
    assert found(tmp_path, tables=TABLE + others) == []


@pytest.mark.parametrize("others", ["", OWN, ONLY_WAITS, COUNTS])
def test_code_of_the_module_that_does_not(tmp_path: Path, others: str) -> None:
    assert found(tmp_path, tables=TABLE + others) == ["certain"]


@pytest.mark.parametrize("others", [COORDINATOR, PASSES_THEM_ON + "# record"])
def test_another_file_may_record_it(tmp_path: Path, others: str) -> None:
    assert found(tmp_path, tables=TABLE, steps="import tables\n" + others) == ["possible"]


@pytest.mark.parametrize("others", [OWN, ONLY_WAITS + "# record", COUNTS + "# record"])
def test_another_file_that_does_not(tmp_path: Path, others: str) -> None:
    assert found(tmp_path, tables=TABLE, steps="import tables\nimport torch\n" + others) == ["certain"]


OF_A_CALL = """\
import torch

class Table:
    def __init__(self, n):
        self.side = torch.cuda.Stream()
        self.rows = torch.ones(n, device="cuda")

    def stage(self, value):
        {made} = torch.cuda.Event(); self.side.wait_event({made})
        with torch.cuda.stream(self.side):
            return self.rows + value
"""


@pytest.mark.parametrize(("made", "known"), [("consumed", "certain"), ("self.consumed", "possible")])
def test_another_file_may_record_what_an_object_has(tmp_path: Path, made: str, known: str) -> None:
    """A variable of the call that waits has that name in no other function."""
    files = {"tables": OF_A_CALL.format(made=made), "steps": "import tables\n" + COORDINATOR}
    assert known in found(tmp_path, **files)


LAYERS = """\
import torch

class Marks:
    def __init__(self, layers):
        self.side = torch.cuda.Stream()
        self.done = {{}}
        for layer in range(layers):
            {made}

    def wait(self, layer, part):
        self.done[layer][part].wait()


def forward(marks: Marks, x: torch.Tensor, layer: int):
    marks.wait(layer - 1, "mlp")
    return run_layer(x, {given})

{others}
"""
NESTED = 'self.done[layer] = {}; self.done[layer]["mlp"] = torch.cuda.Event()'
OTHER_TABLE = "self.done[layer] = [None]; self.done[layer]['mlp'] = torch.cuda.Event()"


@pytest.mark.parametrize("made", [NESTED, OTHER_TABLE])
@pytest.mark.parametrize(
    ("given", "others", "found"),
    [
        ('Step(marks.side, marks.done[layer]["mlp"])', "", set()),
        ("marks.side", "def close(marks): current().after = marks.done[0]['mlp']", set()),
        ("marks.side", "def close(marks): marks.done[0]['mlp'].synchronize()", {"SL103"}),
        ("marks.side", "", {"SL103"}),
    ],
)
def test_an_event_of_a_table_is_recorded_by_whoever_takes_it_out(
    tmp_path: Path, made: str, given: str, others: str, found: set[str]
) -> None:
    text = LAYERS.format(made=made, given=given, others=others)
    report = engine.analyze(tmp_path, written(tmp_path, {"run.py": text}), engine.Settings())
    assert {one.code for one in report.findings if one.confidence is not Confidence.POSSIBLE} == found


LOOKUP = """\
import torch

class Lookup:
    def __init__(self, n):
        self.rows = torch.zeros(n, device="cuda")
        self.side = torch.cuda.Stream()
        self.filled = torch.cuda.Event()

    def prepare(self, x):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.rows.copy_(x)
        {recorded}.record(self.side)

    def finish(self, event):
        torch.cuda.current_stream().wait_event(event)

    def gathered(self):
        self.finish(self.filled)
        return self.rows * 2
"""
MODEL = """\
import torch
from lookup import Lookup

class Model:
    def __init__(self, n):
        self.lookup = Lookup(n)
        self.aside = torch.cuda.Stream()

    def forward(self, x):
        self.aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.aside):
            y = x * 2
        torch.cuda.current_stream().wait_stream(self.aside)
        return self.lookup.gathered() + y
"""


@pytest.mark.parametrize(
    ("recorded", "found"), [("self.filled", []), ("done = torch.cuda.Event(); done", ["SL103"])]
)
def test_the_class_of_another_file_records_its_own(tmp_path: Path, recorded: str, found: list[str]) -> None:
    texts = {"lookup.py": LOOKUP.format(recorded=recorded), "model.py": MODEL}
    report = engine.analyze(tmp_path, written(tmp_path, texts), engine.Settings())
    assert [one.code for one in report.findings] == found


PIPE = """\
import torch
from other.parallel import all_gather

class Part:
    ready: torch.cuda.Event | None = None

class Pipe:
    def __init__(self, parts: list[Part], n):
        self.side = torch.cuda.Stream()
        self.parts = {{part: torch.empty(n, device="cuda") for part in parts}}
        self.pending = set()

    def start(self, n):
        for part, out in self.parts.items():
            {waits}
            with torch.cuda.stream(self.side):
                rows = part.rows[:n]
                if part.size > 1:
                    rows = all_gather(rows, dim=1)
                out[:n].copy_(part.project(rows.flatten(-2)))
            self.pending.add(part)

    def join(self):
        if self.pending:
            torch.cuda.current_stream().wait_stream(self.side)
            self.pending.clear()
"""


@pytest.mark.parametrize(
    ("waits", "sure"),
    [
        ("self.side.wait_event(part.ready)", False),
        ("part.ready.wait(self.side)", False),
        ("own = torch.cuda.Event(); own.record(self.side); self.side.wait_event(own)", True),
    ],
)
def test_an_event_of_an_unknown_object_is_recorded_anew_before_each_call(
    tmp_path: Path, waits: str, sure: bool
) -> None:
    report = engine.analyze(
        tmp_path, written(tmp_path, {"pipe.py": PIPE.format(waits=waits)}), engine.Settings()
    )
    assert any(one.confidence is not Confidence.POSSIBLE for one in report.findings) is sure
