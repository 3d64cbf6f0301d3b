"""Which calls from outside are tried on an object, and that a path may continue where an earlier one was."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlint.interp.entries import starts
from streamlint.interp.entries.construction import Construction
from streamlint.run import engine
from streamlint.run.session import Session
from streamlint.trace import StreamKind, Trace
from tests.test_tree import written

IDIOMS = Path(__file__).parent.parent / "fixtures" / "idioms"

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


@pytest.mark.parametrize("name", [path.name for path in sorted(IDIOMS.glob("i*.py"))])
def test_continuing_from_a_copy_is_as_running_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[object] = []
    keep = Construction._keep

    def noting(self: Construction, *what: object) -> None:
        kept.append(what)
        keep(self, *what)  # type: ignore[arg-type]

    monkeypatch.setattr(Construction, "_keep", noting)
    copied = traces(IDIOMS / name)
    monkeypatch.setattr(Construction, "_keep", lambda *_: None)
    # Where nothing was kept, there is nothing to compare.
    assert not kept or traces(IDIOMS / name) == copied
