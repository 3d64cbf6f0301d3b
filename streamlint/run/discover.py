"""Which files a run looks at."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint import notebook
from streamlint.files import UnreadableError, absolute, is_file, is_folder, read
from streamlint.frozen import frozen
from streamlint.patterns import PatternError, Patterns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SKIPPED_FOLDERS = frozenset(
    [
        *(".git", ".hg", ".nox", ".tox", ".venv", "__pycache__"),
        *("build", "dist", "node_modules", "site-packages", "venv"),
    ]
)
"""Folders of other people's code or of build results. A folder that the user names is walked all the same."""

SUFFIXES = (".py", notebook.SUFFIX)
"""Files that are looked at without being named."""
DEEPEST = 100
"""Folders inside of folders that are looked into; more are a trap, or somebody's mistake."""


@frozen()
class Fault:
    """Something below a named folder that cannot be looked at; the rest is."""

    path: Path
    reason: str


@frozen()
class Discovered:
    """The files below some paths, in a fixed order; paths that lead nowhere; what could not be looked at."""

    files: tuple[Path, ...]
    missing: tuple[Path, ...] = ()
    faults: tuple[Fault, ...] = ()


def discover(paths: Sequence[Path], root: Path, exclude: Sequence[str] = ()) -> Discovered:
    """Find Python files: the named ones, whatever their suffix, and ``SUFFIXES`` below the named folders.

    ``exclude`` holds .gitignore patterns relative to ``root``, which apply to named files as well;
    .gitignore files and ``SKIPPED_FOLDERS`` apply only to what lies below a named folder.
    Raises PatternError on an ``exclude`` pattern that git would not understand.
    """
    excluded = _Ignore(root, Patterns.of(exclude))
    found: dict[str, Path] = {}
    missing: list[Path] = []
    faults: dict[Fault, None] = {}
    for path in paths:
        named = absolute(path)
        if is_folder(named):
            walk = _Walk(named, (os.path.realpath(named), os.path.realpath(root)), excluded)
            files: Iterable[Path] = walk.files(root)
        elif is_file(named):
            walk, files = None, () if excluded.covers(named) else (named,)
        else:
            missing.append(path)
            continue
        for file in files:
            found.setdefault(os.path.realpath(file), file)
        faults.update(dict.fromkeys(walk.faults if walk is not None else ()))
    return Discovered(tuple(sorted(found.values())), tuple(missing), tuple(faults))


@frozen()
class _Ignore:
    """One .gitignore file: its folder and its patterns."""

    folder: Path
    patterns: Patterns

    def verdict(self, path: Path, *, is_folder: bool = False) -> bool | None:
        """Return True if ignored, False if included again by a ``!`` pattern, None if not mentioned."""
        if not self.patterns:
            return None
        try:
            relative = path.relative_to(self.folder).as_posix()
        except ValueError:
            return None
        return self.patterns.verdict(relative, is_folder=is_folder)

    def covers(self, path: Path, *, is_folder: bool = False) -> bool:
        return self.verdict(path, is_folder=is_folder) is True


def _ignored(path: Path, layers: Sequence[_Ignore], *, is_folder: bool) -> bool:
    """Ask the .gitignore files from the inside out; the first that mentions the path decides."""
    for layer in reversed(layers):
        verdict = layer.verdict(path, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


@dataclass(slots=True)
class _Walk:
    """What is below one named folder."""

    folder: Path
    real: tuple[str, str]
    """The folder and the project's root, without links."""
    excluded: _Ignore
    faults: list[Fault] = field(default_factory=list)

    def files(self, root: Path) -> Iterator[Path]:
        if self.folder != self.excluded.folder and self.excluded.covers(self.folder, is_folder=True):
            return
        # No recursion: a thousand folders inside of each other are as good as two.
        waiting = [(self.folder, self._layers_above(root), 0)]
        while waiting:
            folder, layers, depth = waiting.pop()
            layers = (*layers, *self._layer(folder))
            inner: list[tuple[Path, tuple[_Ignore, ...], int]] = []
            for entry in self._entries(folder):
                path = Path(entry.path)
                # Links to folders are not followed: they may lead in circles, or to the same files twice.
                is_folder = entry.is_dir(follow_symlinks=False)
                if not is_folder and not entry.name.endswith(SUFFIXES):
                    continue
                if self.excluded.covers(path, is_folder=is_folder) or _ignored(
                    path, layers, is_folder=is_folder
                ):
                    continue
                if not is_folder:
                    if self._is_ours(entry):
                        yield path
                elif depth >= DEEPEST:
                    self.faults.append(Fault(path, f"more than {DEEPEST} folders deep: not looked into"))
                elif not _skipped(path):
                    inner.append((path, layers, depth + 1))
            waiting += reversed(inner)

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as listing:
                return sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            self.faults.append(Fault(folder, f"cannot read the folder: {error.strerror or error}"))
            return []

    def _is_ours(self, entry: os.DirEntry[str]) -> bool:
        """Tell whether an entry is a regular file of this tree.

        A link that leads out of the project may lead anywhere (``x.py -> /etc/shadow``): it is
        followed if it is named itself. One to nothing is what editors leave beside a file that is open.
        """
        try:
            if not entry.is_file():
                return False
        except OSError as error:
            self.faults.append(Fault(Path(entry.path), f"cannot read the file: {error.strerror or error}"))
            return False
        return not entry.is_symlink() or self._leads_inside(entry.path)

    def _leads_inside(self, path: str) -> bool:
        target = os.path.realpath(path)
        return any(target.startswith(real.rstrip(os.sep) + os.sep) for real in self.real)

    def _layer(self, folder: Path) -> tuple[_Ignore, ...]:
        path = folder / ".gitignore"
        try:
            text = read(path).decode("utf-8", "replace")
            return (_Ignore(folder, Patterns.of(text.split("\n"), lenient=True)),)
        except UnreadableError as error:
            if not error.missing:
                self.faults.append(Fault(path, f"cannot read the patterns: {error}"))
        except PatternError as error:
            self.faults.append(Fault(path, f"cannot use the patterns: {error}"))
        return ()

    def _layers_above(self, root: Path) -> tuple[_Ignore, ...]:
        """Return the .gitignore files above the named folder, up to the repository's top.

        A named folder that these files ignore (an environment, generated code) is wanted all the same:
        then they say nothing about what is in it either.
        """
        chain = (self.folder, *self.folder.parents)
        top = next((part for part in chain if (part / ".git").exists()), root)
        inside = [part for part in chain if top in part.parents]
        layers = [layer for part in reversed(inside) for layer in self._layer(part.parent)]
        return () if any(_ignored(part, layers, is_folder=True) for part in inside) else tuple(layers)


def _skipped(folder: Path) -> bool:
    name = folder.name
    return name in SKIPPED_FOLDERS or name.endswith(".egg-info") or (folder / "pyvenv.cfg").exists()
