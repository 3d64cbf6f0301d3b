"""Writes the completion scripts: ``python -m tests.completions``."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shtab

from streamlint import cli
from streamlint.completion import FOLDER, SHELLS
from streamlint.output.terminal import output_file, report_file
from streamlint.settings.catalog import catalog

if TYPE_CHECKING:
    from collections.abc import Iterator

WHERE = {
    "streamlint.confirm": "streamlint.confirm.command",
    "streamlint.confirm.doctor": "streamlint.confirm.doctor.command",
}
"""Where the command line of a command is, if not where its ``main`` is."""


def whole() -> argparse.ArgumentParser:
    """One command line with all commands in it, each with its own options."""
    parser = cli.parser()
    commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for name, module in cli.ELSEWHERE.items():
        own = importlib.import_module(WHERE.get(module, module)).parser()
        commands.choices[name] = own
    rules = [word for rule in catalog() for word in (rule.code, rule.name)]
    for each in (parser, *commands.choices.values()):
        for action in each._actions:
            _complete(action, rules)
    return parser


def _complete(action: Any, rules: list[str]) -> None:  # noqa: ANN401  what shtab reads is set on it
    if action.dest in ("select", "ignore", "code"):
        action.choices = rules
    elif action.dest == "what":
        action.choices = rules
        action.nargs = None
    elif action.type in (Path, output_file, report_file) or action.dest in ("paths", "target", "targets"):
        action.complete = shtab.DIRECTORY if action.metavar == "FOLDER" else shtab.FILE


def scripts() -> Iterator[tuple[Path, str]]:
    for shell in SHELLS:
        yield FOLDER / f"streamlint.{shell}", shtab.complete(whole(), shell=shell)


if __name__ == "__main__":
    for path, script in scripts():
        path.write_text(script, "utf-8")
