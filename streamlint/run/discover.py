"""Which files a run looks at."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pathspec import GitIgnoreSpec

from streamlint.files import absolute, is_file, is_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SKIPPED_FOLDERS = frozenset(
    [
        *(".git", ".hg", ".nox", ".tox", ".venv", "__pycache__"),
        *("build", "dist", "node_modules", "site-packages", "venv"),
    ]
)
"""Folders of other people's code or of build results. A folder that the user names is walked all the same."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """The files below some paths, in a fixed order, and the paths that lead nowhere."""

    files: tuple[Path, ...]
    missing: tuple[Path, ...] = ()


def discover(paths: Sequence[Path], root: Path, exclude: Sequence[str] = ()) -> Discovered:
    """Find Python files: the named ones, whatever their suffix, and ``*.py`` below the named folders.

    ``exclude`` holds .gitignore patterns relative to ``root``, which apply to named files as well;
    .gitignore files and ``SKIPPED_FOLDERS`` apply only to what lies below a named folder.
    Raises ValueError on an ``exclude`` pattern that git would not understand.
    """
    excluded = _Ignore(root, GitIgnoreSpec.from_lines(exclude))
    found: dict[str, Path] = {}
    missing: list[Path] = []
    for path in paths:
        named = absolute(path)
        if is_folder(named):
            files: Iterable[Path] = _walk_from(named, root, excluded)
        elif is_file(named):
            files = () if excluded.covers(named) else (named,)
        else:
            missing.append(path)
            continue
        for file in files:
            found.setdefault(os.path.realpath(file), file)
    return Discovered(tuple(sorted(found.values())), tuple(missing))


@dataclass(frozen=True, slots=True)
class _Ignore:
    """One .gitignore file: its folder and its patterns."""

    folder: Path
    spec: GitIgnoreSpec

    def verdict(self, path: Path, *, is_folder: bool = False) -> bool | None:
        """Return True if ignored, False if included again by a ``!`` pattern, None if not mentioned."""
        try:
            relative = path.relative_to(self.folder).as_posix()
        except ValueError:
            return None
        return self.spec.check_file(relative + "/" if is_folder else relative).include

    def covers(self, path: Path, *, is_folder: bool = False) -> bool:
        return self.verdict(path, is_folder=is_folder) is True


def _ignored(path: Path, layers: Sequence[_Ignore], *, is_folder: bool) -> bool:
    """Ask the .gitignore files from the inside out; the first that mentions the path decides."""
    for layer in reversed(layers):
        verdict = layer.verdict(path, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


def _layer(folder: Path) -> tuple[_Ignore, ...]:
    try:
        text = (folder / ".gitignore").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    return (_Ignore(folder, GitIgnoreSpec.from_lines(filter(_is_pattern, text.splitlines()))),)


def _is_pattern(line: str) -> bool:
    """Tell whether git would understand the line; it passes over the others (a lone ``!``) in silence."""
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _layers_above(folder: Path, root: Path) -> tuple[_Ignore, ...]:
    """Return the .gitignore files above a named folder, up to the repository's top.

    A named folder that these files ignore (an environment, generated code) is wanted all the same:
    then they say nothing about what is in it either.
    """
    chain = (folder, *folder.parents)
    top = next((part for part in chain if (part / ".git").exists()), root)
    inside = [part for part in chain if top in part.parents]
    layers = [layer for part in reversed(inside) for layer in _layer(part.parent)]
    return () if any(_ignored(part, layers, is_folder=True) for part in inside) else tuple(layers)


def _walk_from(folder: Path, root: Path, excluded: _Ignore) -> Iterator[Path]:
    if folder == excluded.folder or not excluded.covers(folder, is_folder=True):
        yield from _walk(folder, _layers_above(folder, root), excluded)


def _walk(folder: Path, layers: tuple[_Ignore, ...], excluded: _Ignore) -> Iterator[Path]:
    layers = (*layers, *_layer(folder))
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = Path(entry.path)
        # Symbolic links to folders are not followed: they may lead in circles, or to the same files twice.
        is_folder = entry.is_dir(follow_symlinks=False)
        if not is_folder and not (entry.name.endswith(".py") and entry.is_file()):
            continue
        if excluded.covers(path, is_folder=is_folder) or _ignored(path, layers, is_folder=is_folder):
            continue
        if not is_folder:
            yield path
        elif not _skipped(path):
            yield from _walk(path, layers, excluded)


def _skipped(folder: Path) -> bool:
    name = folder.name
    return name in SKIPPED_FOLDERS or name.endswith(".egg-info") or (folder / "pyvenv.cfg").exists()
