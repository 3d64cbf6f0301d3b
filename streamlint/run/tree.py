"""Files as modules: names, contents, and errors that do not stop the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.files import UnreadableError, read_source, relative, text_of
from streamlint.finding import SourceError
from streamlint.notebook import SUFFIX
from streamlint.parsing import MAX_BYTES, parses

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from streamlint import ir
    from streamlint.run.warm import Warm
    from streamlint.source import Span


MOST_NOTEBOOKS = 100
"""Notebooks that are kept as the modules that they are."""


@dataclass(slots=True)
class Tree:
    """The Python files of a run. Files are read when first needed; problems collect in ``errors``."""

    root: Path
    files: Sequence[Path]
    overlay: Mapping[Path, bytes] = field(default_factory=dict)
    max_bytes: int = MAX_BYTES
    warm: Warm | None = None
    """What is known of earlier runs in this process."""
    errors: dict[str, SourceError] = field(default_factory=dict)
    _names: dict[str, tuple[Path, bool]] = field(default_factory=dict)
    _others: dict[str, str] = field(default_factory=dict)
    """Other names that a module can be imported by, when another folder is on the path: its own name."""
    indexed: dict[str, int] = field(default_factory=dict)
    """Characters of the modules that were indexed and not forgotten, by their names."""
    _texts: dict[Path, str | None] = field(default_factory=dict)
    _modules: dict[Path, bytes] = field(default_factory=dict)
    """What notebooks are as modules: each question to all texts would take them apart again."""
    _split: tuple[str, list[str]] = ("", [])
    """The lines of the file that was asked for last: thousands of findings are in one file."""

    def __post_init__(self) -> None:
        packages = frozenset(path.parent for path in self.files if path.name == "__init__.py")
        folders = {folder: _Folder(folder, self.root, packages) for folder in {p.parent for p in self.files}}
        namesakes: list[tuple[Path, bool]] = []
        for path in self.files:
            is_package = path.name == "__init__.py"
            name = dotted(path, folders[path.parent].home)
            known = self._names.get(name)
            # A package's own module wins over a namesake; among equals the first file does.
            # Nothing imports a notebook.
            if path.suffix != SUFFIX and (known is None or (is_package and not known[1])):
                namesakes += [known] if known is not None else []
                self._names[name] = (path, is_package)
            else:
                namesakes.append((path, is_package))
        for path, is_package in namesakes:
            self._names[self._name_by_place(path)] = (path, is_package)
        self._add_other_names(folders)

    def _add_other_names(self, folders: Mapping[Path, _Folder]) -> None:
        """``space.core`` where ``space`` has no ``__init__.py``. A name of two means none."""
        owners: dict[str, set[str]] = {}
        for own, (path, _) in self._names.items():
            for folder in folders[path.parent].others:
                other = dotted(path, folder)
                if other not in self._names:
                    owners.setdefault(other, set()).add(own)
        self._others = {other: names.pop() for other, names in owners.items() if len(names) == 1}

    def _name_by_place(self, path: Path) -> str:
        """A name that nothing imports, for a file like ``b/train.py`` next to ``a/train.py``.

        Two scripts of one name in folders that are no packages are two modules; without a name of its
        own the second one would be looked up, and analyzed, as the first.
        """
        name = f"<{self.relative(path)}>"
        while name in self._names:
            name += "'"
        return name

    def relative(self, path: Path) -> str:
        return relative(path, self.root)

    def names(self) -> dict[Path, str]:
        return {path: name for name, (path, _) in self._names.items()}

    def data(self, path: Path) -> bytes | None:
        """A file's bytes; None, with an error noted, if it cannot be read or is too large."""
        if path in self.overlay:
            return self.overlay[path]
        if path in self._modules:
            return self._modules[path]
        try:
            data = read_source(path, self.max_bytes)
            if path.suffix == SUFFIX:
                if len(self._modules) == MOST_NOTEBOOKS:
                    self._modules.clear()
                self._modules[path] = data
            return data
        except UnreadableError as error:
            self.note(path, error.line, f"cannot read the file: {error}")
            return None

    def text(self, path: Path) -> str | None:
        """A file's text; None, with an error noted, if it is not in the encoding that it names."""
        if path not in self._texts:
            self._texts[path] = self._decode(path)
        return self._texts[path]

    def _decode(self, path: Path) -> str | None:
        data = self.data(path)
        if data is None:
            return None
        try:
            return text_of(data)
        except UnreadableError as error:
            self.note(path, error.line, str(error))
            return None

    def forget(self, kept: Collection[str]) -> None:
        """Drops the texts that were read; only the modules with these names are still indexed."""
        self._texts.clear()
        self.indexed = {name: size for name, size in self.indexed.items() if name in kept}

    def note(self, path: Path, line: int, message: str) -> None:
        where = self.relative(path)
        self.errors.setdefault(where, SourceError(where, line, message))

    def errors_of(self, path: Path) -> tuple[SourceError, ...]:
        """What was noted about a file."""
        error = self.errors.get(self.relative(path))
        return (error,) if error is not None else ()

    def place(self, name: str) -> tuple[str, Path] | None:
        """A module's own name and its file, by its dotted name or by another that it can be imported by."""
        name = self._others.get(name, name)
        return (name, self._names[name][0]) if name in self._names else None

    def load(self, name: str) -> ir.Module | None:
        """The index of a module by a name; see ``place``."""
        place = self.place(name)
        if place is None:
            return None
        name, path = place
        return self.index(path, name, is_package=self._names[name][1])

    def index(self, path: Path, name: str, *, is_package: bool) -> ir.Module | None:
        text = self.text(path)
        if text is None:
            return None
        from streamlint import ir
        from streamlint.lower import index_module

        self.indexed[name] = len(text)
        where = self.relative(path)
        try:
            if self.warm is not None:
                return self.warm.index(text, path, where, name, is_package)
            return index_module(text, where, name, is_package)
        except ir.LoweringError as error:
            self.note(path, error.line, error.message)
            return None

    def check(self, path: Path) -> None:
        """Notes why a file cannot be parsed, if it cannot; cheaper than an index."""
        text = self._decode(path)
        if text is None or parses(text):
            return
        from streamlint import ir
        from streamlint.lower import check_syntax

        try:
            check_syntax(text, self.relative(path))
        except ir.LoweringError as error:
            self.note(path, error.line, error.message)

    def statement(self, span: Span) -> str:
        """Source lines of a place, with white space folded: the statement's text for fingerprints."""
        if self._split[0] != span.path:
            self._split = span.path, (self.text(self.root / span.path) or "").split("\n")
        return " ".join(" ".join(self._split[1][span.line - 1 : span.end_line]).split())


class _Folder:
    """What the modules of a folder can be named from.

    ``home`` is the folder that holds the topmost package around it; the folder itself, if there is none.
    Folders without ``__init__.py`` inside of a package belong to it: ``package/inner`` is ``package.inner``.
    ``others`` are the folders above, up to the root, that may be on the path instead: the one of
    ``space/core``, where only ``core`` has an ``__init__.py``.
    """

    def __init__(self, folder: Path, root: Path, packages: frozenset[Path]) -> None:
        around = [above for above in (folder, *folder.parents) if above in packages]
        self.home = around[-1].parent if around else folder
        above = self.home.parents
        outside = self.home == root or root not in above
        self.others = () if outside else tuple(above[: above.index(root) + 1])


def dotted(path: Path, folder: Path) -> str:
    """The import name of a file when ``folder`` is on the path."""
    parts = path.with_suffix("").relative_to(folder).parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts) or path.parent.name
