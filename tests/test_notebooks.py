"""Notebooks: their cells are one module, and places are those of the cells."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from streamlint import cli, notebook
from streamlint.run import engine
from tests.cli_support import run
from tests.test_tree import written

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]
RACE = (
    "import torch\n%matplotlib inline\nside = torch.cuda.Stream()\nx = torch.zeros(1 << 20, device='cuda')\n"
    "side.wait_stream(torch.cuda.current_stream())",
    "Some *words* about streams.",
    "!nvidia-smi\nwith torch.cuda.stream(side):\n    y = x * 2\n",
    "%%bash\nfor i in 1 2; do echo $i; done",
    "%%time\nprint(torch.cuda.memory_allocated())\nz = y + 1",
)


CALLED = (
    "import torch\nclass Loader:\n    def __init__(self):\n        self.side = torch.cuda.Stream()\n"
    "    def load(self, x: torch.Tensor):\n        with torch.cuda.stream(self.side):\n"
    "            y = x * 2\n        return y.sum()\n"
)


def book(*cells: str, **more: object) -> dict[str, Any]:
    """A notebook as Jupyter writes it; a cell that ends in a full stop is text."""
    return {
        "cells": [
            {
                "cell_type": "markdown" if text.endswith(".") else "code",
                "metadata": {},
                "source": text.splitlines(keepends=True),
            }
            for text in cells
        ],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
        **more,
    }


@pytest.fixture
def race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    path = tmp_path / "race.ipynb"
    path.write_text(json.dumps(book(*RACE), indent=1))
    monkeypatch.chdir(tmp_path)
    return path


def python(*cells: str) -> str:
    return notebook.parse(json.dumps(book(*cells)).encode()).module.decode()


def test_a_race_over_cells_is_found_and_placed_in_them(race: Path, capsys: Capture) -> None:
    result = run(capsys, ".")
    assert result.status == 1
    assert " --> race.ipynb:cell 5:3:5" in result.out
    assert "3 | z = y + 1" in result.out
    assert " ::: race.ipynb:cell 3:3:9" in result.out
    assert "3 |     y = x * 2" in result.out
    concise = run(capsys, "race.ipynb", "--output-format", "concise")
    assert concise.out.startswith("race.ipynb:cell 5:3:5: SL101 [")


def test_tools_get_the_file_and_the_cell(race: Path, capsys: Capture) -> None:
    (found,) = json.loads(run(capsys, ".", "--output-format", "json").out)["findings"]
    assert (found["path"], found["cell"], found["line"], found["column"]) == ("race.ipynb", 5, 3, 5)
    assert [(each["cell"], each["line"]) for each in found["related"]] == [(3, 3)]


def test_what_shows_the_text_of_the_file_gets_its_lines(race: Path, capsys: Capture) -> None:
    document = json.loads(run(capsys, ".", "--output-format", "sarif").out)
    (place,) = document["runs"][0]["results"][0]["locations"]
    region = place["physicalLocation"]["region"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "race.ipynb"
    text = race.read_text().splitlines()[region["startLine"] - 1]
    assert text[region["startColumn"] - 1 : region["endColumn"] - 1] == "y + 1"
    race.write_text(json.dumps(book(*RACE)))  # all on one line
    assert ",line=1,endLine=1," in run(capsys, ".", "--output-format", "github").out


def test_comments_and_a_baseline_work_in_cells(race: Path, capsys: Capture) -> None:
    assert run(capsys, ".", "--write-baseline", "known.json").status == 0
    assert run(capsys, ".", "--baseline", "known.json").status == 0
    cells = [*RACE[:4], RACE[4] + "  # streamlint: ignore[SL101] on purpose"]
    race.write_text(json.dumps(book(*cells)))
    assert run(capsys, ".").status == 0
    race.write_text(json.dumps(book(*RACE)))
    refused = run(capsys, ".", "--add-ignore", "why")
    assert (refused.status, refused.out) == (2, "")
    assert "race.ipynb: no comments are written into a notebook" in refused.err


def test_nothing_imports_a_notebook(race: Path, capsys: Capture) -> None:
    (race.parent / "race.py").write_text("import torch\nSIDE = torch.cuda.Stream()\n")
    (race.parent / "use.py").write_text(
        "import torch\nfrom race import SIDE\n\n"
        "def use():\n    x = torch.zeros(9, device='cuda')\n"
        "    with torch.cuda.stream(SIDE):\n        y = x * 2\n    return (y + 1).sum()\n"
    )
    out = run(capsys, "use.py", "--output-format", "concise").out
    assert "use.py:8:" in out
    assert "`SIDE`" in out


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("x = 1\n%time f()\ny = 2", "x = 1\npass\ny = 2\n"),
        ("if a:\n    !ls {x}\n    ?f\nf??", "if a:\n    pass\n    pass\npass\n"),
        ("files = !ls\na, b = %time f()\nc = d % e", "files = ...\na, b = ...\nc = d % e\n"),
        ("x = (a\n  % b)\ny = '?'", "x = (a\n  % b)\ny = '?'\n"),
        ("%%timeit -n 3\nf(x)", "\nf(x)\n"),
        ("\n%%javascript\nlet x = 1;", "\n\n\n"),
        ("# a question?\n%x", "# a question?\npass\n"),
        ("a\r\nb", "a\nb\n"),
        ("s = '\ud800'", "s = '?'\n"),
    ],
)
def test_what_only_ipython_understands_keeps_its_line(cell: str, expected: str) -> None:
    assert python(cell) == expected


def test_old_and_foreign_notebooks() -> None:
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": ["x = 1"]}]}], "nbformat": 3}
    assert notebook.parse(json.dumps(old).encode()).module == b"x = 1\n"
    julia = book("x = 1", metadata={"kernelspec": {"language": "julia"}})
    assert notebook.parse(json.dumps(julia).encode()).module == b""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{\n"cells": [}\n', "race.ipynb:2: cannot read the file: not a notebook: Expecting value"),
        (b"[]", "race.ipynb:1: cannot read the file: not a notebook: it has no cells"),
        (b'{\n"cells": 3}', "race.ipynb:2: cannot read the file: not a notebook: it has no cells"),
        (
            b'{"cells": [\n{"cell_type": "markdown"},\n{"cell_type": "code",\n"source": ["a, b", 2]}]}',
            "race.ipynb:4: cannot read the file: not a notebook: cell 2 has a source that is no text",
        ),
        (
            b'{"cells": [{"cell_type": "code"}]}',
            "race.ipynb:1: cannot read the file: not a notebook: cell 1 has no source",
        ),
        (
            b'{"worksheets": [{"cells":\n[\n3]}]}',
            "race.ipynb:3: cannot read the file: not a notebook: cell 1 has no type",
        ),
        (b"\xff\xfe", "race.ipynb:1: cannot read the file: not a notebook: not UTF-8"),
        (json.dumps(book(f"x = f'{'{a}' * 600_000}'")).encode(), ": too many braces beside f-strings"),
        (b"[" * 100_000, "race.ipynb: cannot read the file: not a notebook: nested too deeply"),
    ],
)
def test_a_broken_notebook_is_named_and_the_rest_goes_on(
    race: Path, capsys: Capture, content: bytes, message: str
) -> None:
    race.write_bytes(content)
    (race.parent / "other.ipynb").write_text(json.dumps(book(*RACE)))
    result = run(capsys, ".")
    assert result.status == 2
    assert message in result.err
    assert " --> other.ipynb:cell 5:3:5" in result.out


def test_an_error_in_a_cell_is_placed_in_it(race: Path, capsys: Capture) -> None:
    race.write_text(json.dumps(book("import torch", "x = 1\ny = = torch.cuda.Stream()\n")))
    result = run(capsys, ".")
    assert result.status == 2
    assert result.err.startswith("streamlint: error: race.ipynb:cell 2:2: ")


def test_the_name_of_a_cell_is_taken_apart_again() -> None:
    assert notebook.split_path(notebook.cell_path("a:cell 1/b.ipynb", 3)) == ("a:cell 1/b.ipynb", 3)
    assert notebook.split_path("a.py") == ("a.py", None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps(book("x = 1\n" * 1_000_000)), "its code is too large (6000000 characters"),
        (json.dumps(book(*["x = 1"] * 10_001)), "a notebook of more than 10000 cells"),
        (
            f'{{"cells": [{",".join(["{}"] * 1_000_000)}]}}',
            "not a notebook: too large (1000002 objects",
        ),
        (f'{{"cells": [], "picture": "{"A" * 100_000_000}"}}', "file too large (100000028 bytes"),
    ],
    ids=["code", "cells", "parts", "bytes"],
)
def test_what_is_too_large_is_named_at_once(race: Path, capsys: Capture, content: str, message: str) -> None:
    race.write_text(content)
    started = time.process_time()
    result = run(capsys, ".")
    assert result.status == 2
    assert f"race.ipynb: cannot read the file: {message}" in result.err
    assert time.process_time() - started < 5


LONG = [" " * 200_000 + "x", "a " * 200_000 + "= !", "a," * 200_000 + "?"]


@pytest.mark.parametrize("line", LONG, ids=["spaces", "names", "question"])
def test_a_long_line_takes_no_time(line: str) -> None:
    started = time.process_time()
    assert python(f"{line}\n%x").endswith("pass\n")
    assert time.process_time() - started < 10


def test_lines_that_are_not_in_the_file_take_no_time() -> None:
    """A file that is laid out otherwise: the line of a cell is on no line of its own."""
    cells = {"cells": [{"cell_type": "code", "source": ["x = 1\n"] * 50_000}]}
    content = json.dumps(cells, indent=1).replace("x =", "\\u0078 =").encode()
    started = time.process_time()
    assert set(notebook.lines_in_file(content, notebook.parse(content))) == {(1, 0)}
    assert time.process_time() - started < 10


@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_cell_may_be_one_text(ascii_only: bool) -> None:
    sources = ["a = 1\nb = 'é'\nc = 2", "a = 1", 'd = "\\t"\n']
    cells = {"cells": [{"cell_type": "code", "metadata": {}, "source": source} for source in sources]}
    content = json.dumps(cells, indent=1, ensure_ascii=ascii_only).encode()
    parsed = notebook.parse(content)
    rows = content.decode().split("\n")
    lines = [line for cell in parsed.cells for line in cell.source]
    places = notebook.lines_in_file(content, parsed)
    assert len(places) == len(lines)
    for (row, col), line in zip(places, lines, strict=True):
        assert rows[row - 1][col:].startswith(json.dumps(line, ensure_ascii=ascii_only)[1:-1])
    assert sorted({row for row, _ in places}) == [n for n, row in enumerate(rows, 1) if '"source"' in row]


def test_a_notebook_is_taken_apart_once(race: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    parse = notebook.parse

    def noting(content: bytes) -> notebook.Notebook:
        parsed.append(len(content))
        return parse(content)

    monkeypatch.setattr(notebook, "parse", noting)
    files = (race, *written(race.parent, {f"m{number}.py": CALLED for number in range(5)}))
    report = engine.analyze(race.parent, files, engine.Settings())
    assert len(report.findings) > 5
    assert len(parsed) == 1


def test_a_line_of_a_notebook_is_explained_if_it_is_in_one_cell(race: Path, capsys: Capture) -> None:
    assert cli.main(["explain", "race.ipynb:3"]) == 0
    assert "race.ipynb:cell 5:3" in capsys.readouterr().out
    two = CALLED.replace("Loader", "Other").replace("import torch\n", "\n")
    race.write_text(json.dumps(book(CALLED, two)))
    assert cli.main(["explain", "race.ipynb:8"]) == 2
    said = "several cells have a finding in line 8; name one: race.ipynb:cell 1:8, race.ipynb:cell 2:8"
    assert said in capsys.readouterr().err
