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
    for each in (parser, *commands.choices.values()):
        for action in each._actions:
            _complete(action)
    return parser


BASH = """\
_streamlint_rules() {  # one after the other, with commas
  local before=""
  [[ "$1" == *,* ]] && before="${1%,*},"
  compgen -P "$before" -W "RULES" -- "${1##*,}"
}

_streamlint_rules_and_files() {
  _streamlint_rules "$1"
  compgen -f -- "$1"
}
"""
ZSH = """\
_streamlint_rules() {  # one after the other, with commas
  compset -P '*,'
  compadd -- RULES
}

_streamlint_rules_and_files() {
  _streamlint_rules
  _files
}
"""
FISH = """\
function _streamlint_rules  # one after the other, with commas
  set -l before (string match -r '.*,' -- (commandline -ct))
  for rule in RULES
    echo "$before$rule"
  end
end

function _streamlint_rules_and_files
  _streamlint_rules
  __fish_complete_path (commandline -ct)
end
"""
PLACES = {
    "bash": (
        "_shtab_streamlint_check_pos_0_COMPGEN=",
        "_shtab_streamlint_pos_0_COMPGEN=_shtab_compgen_files\n",
    ),
    "zsh": ("  _describe 'streamlint commands' _commands\n", "  _files\n"),
    "fish": (
        "complete -c streamlint -f\n",
        "complete -c streamlint -n '_shtab_streamlint_using; and test $_shtab_streamlint_npos -eq 0'"
        " -ka '(__fish_complete_path (commandline -ct))'\n",
    ),
}
"""Where a script tells of the first word, and what it adds: `streamlint src` means `streamlint check src`."""


def _rules(name: str) -> dict[str, Any]:
    rules = " ".join(word for rule in catalog() for word in (rule.code, rule.name))
    texts = {"bash": BASH, "zsh": ZSH, "fish": FISH}
    return {
        "bash": name,
        "zsh": name,
        "fish": f"({name})",
        "preamble": {shell: text.replace("RULES", rules) for shell, text in texts.items()},
    }


def _complete(action: Any) -> None:  # noqa: ANN401  what shtab reads is set on it
    if action.dest in ("select", "ignore", "code"):
        action.complete = _rules("_streamlint_rules")
    elif action.dest == "what":
        action.complete = _rules("_streamlint_rules_and_files")
        action.nargs = None
    elif action.type in (Path, output_file, report_file) or action.dest in ("paths", "target", "targets"):
        action.complete = shtab.DIRECTORY if action.metavar == "FOLDER" else shtab.FILE


def scripts() -> Iterator[tuple[Path, str]]:
    for shell in SHELLS:
        script = shtab.complete(whole(), shell=shell)
        place, files = PLACES[shell]
        before, there, after = script.partition(place)
        assert there, f"the script for {shell} is made in another way"
        text = f"{before}{files}{there}{after}" if shell == "bash" else f"{before}{there}{files}{after}"
        yield FOLDER / f"streamlint.{shell}", text


if __name__ == "__main__":
    for path, script in scripts():
        path.write_text(script, "utf-8")
