"""Which calls from outside are tried on an object, and that a path may continue where an earlier one was."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamlint.frozen import replace
from streamlint.interp.entries import runs, starts
from streamlint.interp.entries.construction import Construction
from streamlint.interp.python import functions
from streamlint.interp.state.budgets import LIMITS
from streamlint.run import engine
from streamlint.run.session import Session
from streamlint.trace import StreamKind, Trace
from tests.test_tree import written

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import FuncV, Value

FIXTURES = Path(__file__).parent.parent / "fixtures"
IDIOMS = FIXTURES / "idioms"

CLASS = """\
import torch

class Table:
    def __init__(self):
        self.rows = torch.zeros(8, device="cuda")
        self.side = None

    def {first}

    def total(self):
        {total}
        return self.rows.sum()
"""
WAIT = "torch.cuda.synchronize()"
ENTER = "torch.cuda.set_stream(self.side)"
FILL = """fill(self, x: torch.Tensor):
        self.rows.copy_(x)
        torch.cuda.synchronize()"""
USE = """use(self, side):
        self.side = side
        self.rows.zero_()"""


def traces(file: Path) -> dict[str, list[Trace]]:
    session = Session(file.parent, (file,), engine.Settings(), {})
    module = session.project.module(file.stem)
    assert module is not None
    found: dict[str, list[Trace]] = {}
    for run in starts.module_runs(session.project, module, StreamKind.LEGACY):
        found.setdefault(run.entry.label, []).extend(run.traces)
    return found


def test_methods_that_have_nothing_to_order_are_not_paired(tmp_path: Path) -> None:
    (file,) = written(tmp_path, {"table.py": CLASS.format(first=FILL, total=WAIT)})
    assert {"Table.fill", "Table.total"} == traces(file).keys()


PARTS = """\
import torch

class Encoder:
    def forward(self, x):
        return x * 2

class Decoder:
    def __init__(self):
        self.side = torch.cuda.Stream()

    def forward(self, x):
        with torch.cuda.stream(self.side):
            return x + 1

class Tail(Encoder):
    def forward(self, x):
        return super().forward(x) + 1
"""


def test_a_method_is_not_run_for_what_touches_streams_in_another_class(tmp_path: Path) -> None:
    (file,) = written(tmp_path, {"parts.py": PARTS})
    # What Tail's calls may be the decoder's, as far as the text tells.
    assert {"Decoder.forward", "Tail.forward"} == traces(file).keys()


def test_a_setter_of_streams_is_paired_with_what_uses_them(tmp_path: Path) -> None:
    (file,) = written(tmp_path, {"table.py": CLASS.format(first=USE, total=ENTER)})
    assert "Table.use, then total" in traces(file)


ENDING = """use(self, x: torch.Tensor):
        assert self.side is not None
        with torch.cuda.stream(self.side):
            self.rows.copy_(x)

    def set_up(self):
        self.side = torch.cuda.Stream()"""


def test_what_comes_behind_a_call_that_ends_all_paths_is_not_run(tmp_path: Path) -> None:
    (file,) = written(tmp_path, {"table.py": CLASS.format(first=ENDING, total=ENTER)})
    labels = traces(file).keys()
    assert "Table.use, then total" not in labels
    assert "Table.set_up, then use" in labels


CLASSES = [
    *sorted(IDIOMS.glob("i*.py")),
    *(path for path in sorted((FIXTURES / "torch").glob("*.py")) if path.read_text().count("\nclass ") > 4),
]


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in CLASSES])
def test_continuing_from_a_copy_is_as_running_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[object] = []
    keep = Construction._keep

    def noting(self: Construction, *what: object) -> None:
        kept.append(what)
        keep(self, *what)  # type: ignore[arg-type]

    # A copy costs no steps: where these are limited, running again leaves out more.
    monkeypatch.setattr(runs, "LIMITS", replace(LIMITS, entry_steps=LIMITS.file_steps))
    monkeypatch.setattr(Construction, "_keep", noting)
    copied = traces(path)
    monkeypatch.setattr(Construction, "_keep", lambda *_: None)
    # Where nothing was kept, there is nothing to compare.
    assert not kept or traces(path) == copied


CHOOSING = """\
import torch

class Sender:
    def __init__(self, aside: bool):
        self.side = torch.cuda.Stream() if aside else None
        self.page = torch.empty(8, pin_memory=True)

    def send(self, x: torch.Tensor, fast: bool):
        if self.side is not None:
            self.side.wait_stream(torch.cuda.current_stream())
        assert fast
        with torch.cuda.stream(self.side):
            self.page.copy_(x, non_blocking=True)

    def total(self):
        return self.page.sum()

    def last(self):
        return self.page[-1]
"""


def test_the_beginning_of_a_path_is_run_once_for_each_way_through_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[tuple[str, tuple[int, ...]]] = []
    run = functions.run_function

    def noting(m: Machine, func: FuncV, *rest: object) -> Value:
        before = m.oracle.chosen
        try:
            return run(m, func, *rest)  # type: ignore[arg-type]
        finally:
            if m.call < 2:
                runs.append((func.function.qualname, (*before, -1, *m.oracle.chosen)))

    monkeypatch.setattr(functions, "run_function", noting)
    (file,) = written(tmp_path, {"sender.py": CHOOSING})
    assert {"Sender.send", "Sender.send, then total", "Sender.send, then last"} <= traces(file).keys()
    assert len({way for name, way in runs if name == "Sender.__init__"}) == 2
    assert len(runs) == len(set(runs))


@pytest.mark.parametrize(
    "owner", ["list(module.parameters())[-1]", "module.bias.grad_fn.next_functions[0][0]", "last_of(module)"]
)
def test_a_hook_of_what_a_call_or_an_item_gave_is_one(tmp_path: Path, owner: str) -> None:
    """Nobody calls ``_add`` but the hook: a class without a caller in sight is run with it all the same."""
    code = f"""\
import torch

class Summed:
    def __init__(self, module):
        self.side = torch.cuda.Stream()
        self.total = torch.zeros(8, device="cuda")
        {owner}.register_hook(self._add)

    def _add(self, grad):
        with torch.cuda.stream(self.side):
            self.total.add_(grad)

    def step(self, loss):
        loss.backward()
        return self.total.sum()
"""
    (file,) = written(tmp_path, {"summed.py": code})
    added, read = (code[: code.index(text)].count("\n") + 1 for text in ("total.add_", "total.sum"))
    runs = [trace for of in traces(file).values() for trace in of]
    assert any({added, read} <= {op.at.span.line for op in run.ops} for run in runs)
