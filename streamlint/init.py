"""``streamlint init``: a configuration and a hook for a project that has none. What is there stays."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.errors import UserError
from streamlint.files import UnreadableError, read
from streamlint.output.terminal import save, show
from streamlint.settings.config import OWN_FILE, is_configured, load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

KEYS = """\
min-confidence = "likely"  # certain, likely or possible
exclude = []               # patterns as in .gitignore
jobs = 0                   # processes; 0 is one for each core
"""
HOOKS = ".pre-commit-config.yaml"
HOOK = """\
  - repo: local
    hooks:
      - id: streamlint
        name: streamlint
        entry: streamlint check
        language: system
        types_or: [python, jupyter]
        require_serial: true
"""


def main(argv: Sequence[str]) -> int:
    """Write what is missing, and say what was done.

    Raises UserError if something cannot be read or written.
    """
    folder: Path = parser().parse_args(argv).folder
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder")
    for name in (OWN_FILE, "pyproject.toml", HOOKS):
        _stays_inside(folder, folder / name)
    _is_closed(folder / HOOKS)
    for said in (*_configuration(folder), *_hook(folder)):
        show(said)
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="streamlint init", description=__doc__)
    made.add_argument("folder", nargs="?", type=Path, default=Path(), help="the project (default: here)")
    return made


def _stays_inside(folder: Path, path: Path) -> None:
    """Raises UserError for a link that leads out of the folder: a file of somebody else would be written."""
    inside, target = os.path.realpath(folder), os.path.realpath(path)
    if path.is_symlink() and os.path.commonpath([inside, target]) != inside:
        raise UserError(f"{path}: a link that leads out of {folder}")


def _configuration(folder: Path) -> Iterator[str]:
    own, project = folder / OWN_FILE, folder / "pyproject.toml"
    load(folder)  # what is wrong with it is said before anything is written
    if own.exists():
        yield f"{own}: left as it is"
    elif not project.exists():
        save(own, KEYS)
        yield f"{own}: written"
    elif is_configured(project):
        yield f"{project}: left as it is"
    else:
        text = _text(project)
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        save(project, f"{text}{gap}[tool.streamlint]\n{KEYS}")
        yield f"{project}: [tool.streamlint] added"


def _hook(folder: Path) -> Iterator[str]:
    path = folder / HOOKS
    if not path.exists():
        save(path, f"repos:\n{HOOK}")
        yield f"{path}: written; `pre-commit install` switches it on"
    elif not re.search(r"^repos:", text := _text(path), re.MULTILINE):
        yield f"{path}: left as it is; it has no `repos:`, without which pre-commit does not take it"
    elif tab := re.search(r"^ *\t", text, re.MULTILINE):
        line = text.count("\n", 0, tab.start()) + 1
        yield f"{path}:{line}: left as it is; a tab indents it, which YAML does not take"
    elif re.search(r"^[^#\n]*\bstreamlint\b", text, re.MULTILINE):
        yield f"{path}: left as it is"
    elif _EMPTY.search(text):
        yield f"{path}: left as it is; write this in the place of `repos: []`\n\nrepos:\n{HOOK}"
    elif _BRACKET.search(text):
        yield f"{path}: left as it is; write its list without brackets, and this under `repos:`\n\n{HOOK}"
    else:
        # YAML cannot be added to without knowing how it is laid out, nor rewritten without losing comments.
        yield f"{path}: left as it is; add this under `repos:`\n\n{HOOK}"


_EMPTY = re.compile(r"^repos:[ \t]*\[\s*\]", re.MULTILINE)
_BRACKET = re.compile(r"^repos:[ \t]*\[", re.MULTILINE)


def _is_closed(path: Path) -> None:
    """Raises UserError where the bracket of ``repos: [`` is not closed: nobody can add to that."""
    text = _text(path) if path.exists() else ""
    bracket = _BRACKET.search(text)
    if bracket is not None and "]" not in text[bracket.end() :]:
        line = text.count("\n", 0, bracket.start()) + 1
        raise UserError(f"{path}:{line}: the bracket of `repos: [` is not closed")


def _text(path: Path) -> str:
    try:
        return read(path).decode("utf-8", "replace")
    except UnreadableError as error:
        raise UserError(f"{path}: {error}") from error
