"""The code in the guides does what they say."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from streamlint import cli, models
from streamlint.finding import leading
from streamlint.interp.state.budgets import LIMITS, Most
from streamlint.judging import judge
from streamlint.models.schema import Lib, Role
from streamlint.rules import RULES
from streamlint.rules.base import Rule
from streamlint.run import engine
from tests.expectations import compare, explain, parse
from tests.traces import Program

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^```python\n# (?P<path>\S+\.py)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> dict[str, str]:
    """The code blocks of a page that say which file they are."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return {match["path"]: match["code"] for match in BLOCK.finditer(text)}


def only(files: dict[str, str], start: str) -> tuple[str, str]:
    (found,) = [(path, code) for path, code in files.items() if path.startswith(start)]
    return found


def execute(code: str, name: str, **known: object) -> dict[str, Any]:
    module = ModuleType(name)
    sys.modules[name] = module  # where dataclasses and postponed annotations look names up
    vars(module).update(known)
    exec(compile(code, name, "exec"), vars(module))  # noqa: S102
    return vars(module)


def check_fixture(tmp_path: Path, path: str, code: str) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(code, encoding="utf-8")
    report = engine.analyze(tmp_path, [file], engine.Settings())
    report = replace(report, findings=leading(report.findings))
    assert not report.errors
    mismatches = compare(parse(code), report.findings)
    assert not mismatches, explain(path, code, mismatches, report.findings)


@pytest.fixture(autouse=True)
def modules() -> Iterator[None]:
    before = dict(sys.modules)
    yield
    for name in sys.modules.keys() - before.keys():
        if name.startswith("guide_"):
            del sys.modules[name]


def test_adding_a_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = blocks("adding-a-rule.md")
    made = execute(only(files, "streamlint/rules/")[1], "guide_rule")
    rule = made["RULE"]
    assert isinstance(rule, Rule)
    assert rule.code not in {known.code for known in RULES}, "the example's code is in use: take another one"
    test = execute(
        only(files, "tests/test_")[1], "guide_test", Program=Program, judge=judge.judge, check=rule.check
    )
    test["test_a_stream_that_waits_for_its_own_record"]()
    monkeypatch.setattr(judge, "RULES", (*RULES, rule))
    check_fixture(tmp_path, *only(files, "fixtures/"))


def test_adding_a_framework(tmp_path: Path) -> None:
    files = blocks("adding-a-framework.md")
    shown = execute(only(files, "streamlint/models/")[1], "guide_models")["PYCUDA"]
    shipped = models.BY_LIB[Lib.PYCUDA]
    assert set(shown.modules) <= set(shipped.modules)
    assert set(shown.functions) <= set(shipped.functions)
    for role in Role:
        assert set(models.methods_of(shown, role)) <= set(models.methods_of(shipped, role))
    check_fixture(tmp_path, *only(files, "fixtures/"))


BUDGET = re.compile(
    r"^\| [^|]+ \| (?P<value>[\d ]+) \| `(?P<module>[\w.]+)\.(?P<name>[A-Z_]+)` \|$", re.MULTILINE
)
LIMIT = re.compile(
    r"^\| (?P<what>[^|]+) \| (?P<value>[\d ]+)[^|]*\| `Limits\.(?P<name>\w+)` \|$", re.MULTILINE
)
UNITS = {"file_bytes": 10**9}


def test_the_budgets_in_the_documents_are_those_of_the_code() -> None:
    found = list(BUDGET.finditer((DOCS / "paths.md").read_text(encoding="utf-8")))
    assert len(found) >= 10
    for row in found:
        module = importlib.import_module(f"streamlint.{row['module']}")
        bound = getattr(module, row["name"])
        number = bound.number if isinstance(bound, Most) else bound
        assert number == int(row["value"].replace(" ", "")), row[0]


def test_the_limits_in_the_documents_are_all_those_of_the_code() -> None:
    text = (DOCS / "paths.md").read_text(encoding="utf-8")
    told = {
        row["name"]: int(row["value"].replace(" ", "")) * UNITS.get(row["name"], 1)
        for row in LIMIT.finditer(text)
    }
    # What a path costs beside its steps stands in the row of the file's.
    assert told == {name: value for name, value in asdict(LIMITS).items() if name != "path_cost"}
    assert f"and {LIMITS.path_cost} for each path" in text


def test_the_laws_in_the_semantics_have_their_tests() -> None:
    named = set(re.findall(r"`(test_\w+)`", (DOCS / "semantics.md").read_text(encoding="utf-8")))
    tests = DOCS.parent / "tests"
    files = [*tests.glob("test_hb_laws_*.py"), tests / "test_framework_laws.py"]
    laws = "\n".join(file.read_text(encoding="utf-8") for file in files)
    assert named
    assert named <= set(re.findall(r"^def (test_\w+)", laws, re.MULTILINE))


OUTPUT = re.compile(
    r"^<!-- the output of: streamlint (?P<command>[^\n]*?)(?P<repaired>, repaired)? -->\n"
    r"```text\n(?P<shown>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def _repaired(page: str, code: str) -> str:
    """Return a program with the added line of the page's only change."""
    ((before, added, after),) = re.findall(r"^```diff\n (.*\n)\+(.*\n) (.*\n)```$", page, re.MULTILINE)
    assert code.count(before + after) == 1
    return code.replace(before + after, before + added + after)


@pytest.mark.parametrize("name", ["../README.md", "quick-start.md", "tutorial.md"])
def test_the_output_on_a_page_is_what_is_printed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (DOCS / name).read_text(encoding="utf-8")
    programs = {path: f"# {path}\n{code}" for path, code in blocks(name).items()}
    if not programs:  # those of the repository, in a tree of their own
        shutil.copytree(DOCS.parent / "examples", tmp_path / "examples")
        (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    found = list(OUTPUT.finditer(page))
    assert found
    for output in found:
        for path, code in programs.items():
            (tmp_path / path).write_text(
                _repaired(page, code) if output["repaired"] else code, encoding="utf-8"
            )
        cli.main(["check", "--color", "never", *shlex.split(output["command"].removeprefix("check "))])
        printed = _without_seconds(capsys.readouterr().out)
        position = 0
        for part in _without_seconds(output["shown"]).split("[...]\n"):
            at = printed.find(part, position)
            assert at >= 0, f"{name} shows what is not printed:\n{part}\nbut:\n{printed}"
            position = at + len(part)


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    navigation = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = [*DOCS.glob("*.md"), *DOCS.glob("confirmations/*.md")]
    assert {page.relative_to(DOCS).as_posix() for page in pages} <= set(
        re.findall(r": (\S+\.md)", navigation)
    )


LISTS = re.compile(r"`(streamlint(?:\.[a-z]\w*)*)\.([A-Z_]\w*)`")


def test_the_lists_are_where_the_guide_says() -> None:
    page = (DOCS / "adding-a-framework.md").read_text(encoding="utf-8").partition("## Where every list is")[2]
    named = LISTS.findall(page)
    assert len(named) > 20
    for module, name in named:
        assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


def _without_seconds(text: str) -> str:
    return re.sub(r"in \d+\.\d+ s\.", "in 0 s.", text)


@pytest.mark.parametrize(
    "page",
    [*DOCS.glob("*.md"), *DOCS.glob("confirmations/*.md"), *DOCS.parent.glob("*.md")],
    ids=lambda page: str(page.name),
)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        if ":" in name or not target:
            continue
        file = page.parent / name if name else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}
