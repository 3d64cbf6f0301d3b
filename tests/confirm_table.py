"""Prints reports of ``tests/test_confirm_gpu.py`` as the tables of docs/confirmations.md.

python -m tests.confirm_table report.json [another.json ...] > tables.md
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

_LONGEST = 24


def tables(confirmations: list[dict[str, Any]], environment: dict[str, str]) -> str:
    """Markdown: the counts, each wrong function with its evidence, the right ones by file."""
    by_case: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for one in confirmations:
        by_case[one["path"].partition("fixtures/")[2], one["function"]].append(one)
    return "\n".join(
        [
            ", ".join(f"{name} {version}" for name, version in sorted(environment.items())),
            "",
            *_counts(by_case),
            "",
            "## Functions that are wrong",
            *_wrong(by_case),
            "",
            "## Functions that are right",
            "",
            *_right(by_case),
            "",
        ]
    )


def _is_wrong(case: tuple[str, str]) -> bool:
    return case[1].endswith("_bad")


def _shown(runs: list[dict[str, Any]]) -> dict[str, Any] | None:
    return next((run for run in runs if run["verdict"] == "CONFIRMED"), None)


def _counts(by_case: dict[tuple[str, str], list[dict[str, Any]]]) -> list[str]:
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for case, runs in by_case.items():
        row = rows[case[0].partition("/")[0]]
        row["wrong" if _is_wrong(case) else "right"] += 1
        if _is_wrong(case):
            row["shown"] += _shown(runs) is not None
        else:
            ran = {run["verdict"] for run in runs} <= {"ORDERED", "UNORDERED", "NOT_REACHED"}
            row["quiet"] += ran
    lines = ["| framework | wrong | shown | right | ran, nothing shown |", "|---|---|---|---|---|"]
    for name, row in sorted(rows.items()):
        lines.append(f"| {name} | {row['wrong']} | {row['shown']} | {row['right']} | {row['quiet']} |")
    return lines


def _wrong(by_case: dict[tuple[str, str], list[dict[str, Any]]]) -> list[str]:
    lines: list[str] = []
    file = ""
    for case in sorted(filter(_is_wrong, by_case)):
        if case[0] != file:
            file = case[0]
            lines += [
                "",
                f"### {file}",
                "",
                "| function | rule | held back | evidence |",
                "|---|---|---|---|",
            ]
        runs = by_case[case]
        shown = _shown(runs) or runs[0]
        place = f"line {shown['earlier']['line']}" if shown["earlier"] else "nothing"
        lines.append(f"| `{case[1]}` | {shown['code']} | {place} | {_evidence(shown)} |")
    return lines


def _evidence(run: dict[str, Any]) -> str:
    difference = run["difference"]
    if run["verdict"] != "CONFIRMED":
        return f"**{run['verdict'].lower().replace('_', ' ')}**: {_cell(run['reason'], 160)}"
    if difference is None:
        return _cell(run["reason"], 160)
    return f"`{_cell(difference['gated'])}` for `{_cell(difference['reference'])}`"


def _cell(text: str, longest: int = _LONGEST) -> str:
    line = " ".join(text.split()).replace("|", "/")
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def _right(by_case: dict[tuple[str, str], list[dict[str, Any]]]) -> list[str]:
    files: dict[str, Counter[str]] = defaultdict(Counter)
    notes: list[str] = []
    for case, runs in sorted(by_case.items()):
        if _is_wrong(case):
            continue
        files[case[0]]["functions"] += 1
        files[case[0]]["runs"] += len(runs)
        bad = [run for run in runs if run["verdict"] in ("CONFIRMED", "NOISY", "NOT_RUN")]
        if bad:
            notes.append(
                f"* {case[0]} `{case[1]}`: {bad[0]['verdict'].lower()}, {_cell(bad[0]['reason'], 200)}"
            )
    lines = ["| file | functions | runs with something held back |", "|---|---|---|"]
    lines += [f"| {name} | {row['functions']} | {row['runs']} |" for name, row in files.items()]
    return [*lines, *(["", *notes] if notes else [])]


def main(paths: list[str]) -> None:
    confirmations: list[dict[str, Any]] = []
    environment: dict[str, str] = {}
    for path in paths:
        read = json.loads(Path(path).read_text("utf-8"))
        for document in read if isinstance(read, list) else [read]:
            confirmations += document.get("confirmations", [])
            environment |= document.get("environment", {})
    sys.stdout.write(tables(confirmations, environment))


if __name__ == "__main__":
    main(sys.argv[1:])
