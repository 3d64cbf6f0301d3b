"""Files as modules: names, contents, and errors that do not stop the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.files import UnreadableError, read_source, relative, text_of
from streamlint.finding import SourceError
from streamlint.notebook import SUFFIX
from streamlint.parsing import MAX_BYTES, parses
from streamlint.run.module_names import Names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from streamlint import ir
    from streamlint.lower.outline import Looked
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
    named: Names = field(init=False)
    indexed: dict[str, int] = field(default_factory=dict)
    """Characters of the modules that were indexed and not forgotten, by their names."""
    looked: Looked = field(init=False)
    """Functions of indexed modules whose code was looked at."""
    touching: dict[Path, bool] = field(default_factory=dict)
    """Whether files that others import can hold GPU work, as far as somebody has asked."""
    handing_on: dict[Path, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """By the files of modules: from which others they have their names."""
    importing: dict[Path, tuple[bool, frozenset[str]]] = field(default_factory=dict)
    """Whether they import such files, and the names that were looked up for that."""
    _parsed: set[Path] = field(default_factory=set)
    """Files that were parsed for an index: why one could not be is noted."""
    _texts: dict[Path, str | None] = field(default_factory=dict)
    _modules: dict[Path, bytes] = field(default_factory=dict)
    """What notebooks are as modules: each question to all texts would take them apart again."""
    _split: tuple[str, list[str]] = ("", [])
    """The lines of the file that was asked for last: thousands of findings are in one file."""

    def __post_init__(self) -> None:
        def named() -> Names:
            return Names.of(self.root, self.files)

        self.looked = set() if self.warm is None else self.warm.looked
        self.named = named() if self.warm is None else self.warm.named((self.root, self.files), named)

    def relative(self, path: Path) -> str:
        return relative(path, self.root)

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

    def load(self, name: str) -> ir.Module | None:
        """The index of a module by a name; see ``Names.place``."""
        place = self.named.place(name)
        if place is None:
            return None
        name, path = place
        return self.index(path, name, is_package=self.named.own[name][1])

    def index(self, path: Path, name: str, *, is_package: bool) -> ir.Module | None:
        text = self.text(path)
        if text is None:
            return None
        from streamlint import ir
        from streamlint.lower import index_module

        self.indexed[name] = len(text)
        self._parsed.add(path)
        where = self.relative(path)
        try:
            if self.warm is not None:
                return self.warm.index(text, path, where, name, is_package)
            return index_module(text, where, name, is_package, looked=self.looked)
        except ir.LoweringError as error:
            self.note(path, error.line, error.message)
            return None

    def check(self, path: Path) -> None:
        """Notes why a file cannot be parsed, if it cannot; cheaper than an index."""
        text = self._decode(path) if path not in self._parsed else None
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
