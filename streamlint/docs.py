"""Writes a page for each rule: ``python -m streamlint.docs [--check] [FOLDER]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.catalog import catalog, sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.catalog import RuleInfo

FOLDER = Path("docs/rules")
INDEX = "README.md"


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
    return (
        f"# {rule.code} {rule.name}\n\n{sentence(rule.summary)}\n\n"
        f"Severity: {rule.severity.value}. {state}\n\n{rule.doc.strip()}\n"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages, or with ``--check`` only tell (exit 1) which are out of date."""
    parser = argparse.ArgumentParser(prog="python -m streamlint.docs", description="Write the rule pages.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    options = parser.parse_args(argv)
    rules = catalog()
    if not options.check:
        write(options.folder, rules)
        return 0
    names = stale(options.folder, rules)
    for name in names:
        sys.stderr.write(f"out of date: {options.folder / name}; run python -m streamlint.docs\n")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
