"""Writes a page for each rule, and one about the models: ``python -m streamlint.docs [--check] [FOLDER]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint import models
from streamlint.fixes.plans import FIXED
from streamlint.models import describe
from streamlint.models.schema import Role
from streamlint.settings.catalog import UNUSED_SUPPRESSION, catalog, sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from streamlint.models.describe import Words
    from streamlint.models.schema import Api, Framework
    from streamlint.settings.catalog import RuleInfo

FOLDER = Path("docs/rules")
INDEX = "README.md"
MODELS = "models.md"
"""The page about the models; it stands beside the folder of the rule pages."""


def pages(rules: Sequence[RuleInfo]) -> dict[str, str]:
    """Return the text of every page by file name."""
    return {INDEX: _index(rules), **{f"{rule.code}.md": _page(rule) for rule in rules}}


def stale(folder: Path, rules: Sequence[RuleInfo]) -> list[str]:
    """Return the names of pages that are missing, out of date, or of no rule."""
    wanted = pages(rules)
    present = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    return sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))


def write(folder: Path, rules: Sequence[RuleInfo]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    wanted = pages(rules)
    for name in stale(folder, rules):
        if name in wanted:
            (folder / name).write_text(wanted[name], encoding="utf-8", newline="\n")
        else:
            (folder / name).unlink()


def _index(rules: Sequence[RuleInfo]) -> str:
    rows = [
        f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.severity.value} "
        f"| {'yes' if rule.default else 'no'} | {rule.summary} |"
        for rule in rules
    ]
    table = ["| code | name | severity | on by default | reports |", "| --- | --- | --- | --- | --- |", *rows]
    return "\n".join(["# Rules", "", *table]) + "\n"


def _page(rule: RuleInfo) -> str:
    state = "On by default." if rule.default else f"Off unless selected: `--select {rule.code}`."
    has_fix = rule.code in FIXED or rule.code == UNUSED_SUPPRESSION.code
    fix = "[A fix](../fixes.md) is offered where the code can name what it needs." if has_fix else "No fix."
    return (
        f"# {rule.code} {rule.name}\n\n{sentence(rule.summary)}\n\n"
        f"Severity: {rule.severity.value}. {state} {fix}\n\n{rule.doc.strip()}\n"
    )


def models_page() -> str:
    """Return the page that says what each call of the frameworks means."""
    return "\n".join(_models_lines()) + "\n"


def _models_lines() -> Iterator[str]:
    yield from (
        "# What the calls mean",
        "",
        "Written by `python -m streamlint.docs` from the tables in `streamlint/models`. A call that has no",
        "row is *opaque*: see [design.md](design.md#opaque-calls-and-escapes).",
        "[semantics.md](semantics.md) says what follows from these effects, and",
        "[adding-a-framework.md](adding-a-framework.md) how to add a row.",
    )
    for framework in models.FRAMEWORKS:
        yield from _framework(framework)
    yield from ("", "## Host memory", "", "numpy, ctypes and builtins, whichever library made the memory.")
    yield from _words(describe.HOST_WORDS)


def _framework(framework: Framework) -> Iterator[str]:
    yield from ("", f"## {framework.lib.value}", "", f"Source: <{framework.url}>", "")
    yield f"Modules: {_listed(framework.modules)}."
    if framework.streams:
        yield from ("", f"Default streams by name: {_listed(name for name, _ in framework.streams)}.")
    if framework.operations:
        yield from (
            "",
            f"Each other function of {_listed(framework.operations)} reads the memory that it gets and makes "
            "its result, on the stream that it is given or the current one.",
        )
    if framework.raw_handles:
        yield from (
            "",
            f"Attributes of streams and events with a handle: {_listed(framework.raw_handles)}.",
        )
    yield from _table("function", framework.functions)
    for role in Role:
        yield from _table(f"{role.value} method", models.methods_of(framework, role), role.value)
    yield from _words(describe.WORDS.get(framework.lib, ()))


def _table(heading: str, rows: Sequence[Api], receiver: str = "object") -> Iterator[str]:
    if rows:
        yield from ("", f"| {heading} | effect |", "| --- | --- |")
        for api in rows:
            effects = describe.effects(api).replace("the object", f"the {receiver}")
            yield f"| `{describe.call(api)}` | {effects} |"


def _words(words: Iterable[Words]) -> Iterator[str]:
    for each in words:
        yield from ("", f"{each.meaning}: {_listed(sorted(each.names))}.")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages, or with ``--check`` only tell (exit 1) which are out of date."""
    parser = argparse.ArgumentParser(
        prog="python -m streamlint.docs", description="Write the pages about the rules and the models."
    )
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    options = parser.parse_args(argv)
    rules = catalog()
    about_models = options.folder.parent / MODELS
    if not options.check:
        write(options.folder, rules)
        about_models.write_text(models_page(), encoding="utf-8", newline="\n")
        return 0
    old = [options.folder / name for name in stale(options.folder, rules)]
    if not about_models.is_file() or about_models.read_text(encoding="utf-8") != models_page():
        old.append(about_models)
    for path in old:
        sys.stderr.write(f"out of date: {path}; run python -m streamlint.docs\n")
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
