"""What a process that is asked about the same files again and again keeps between questions: an editor's.

None of it decides what is found: a module that holds the same text is the same, and so is a function that
stands on the same lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from streamlint import ir
    from streamlint.cache.snapshot import Snapshot
    from streamlint.finding import Pair
    from streamlint.lower.kept import Lowered
    from streamlint.lower.outline import Looked
    from streamlint.run.module_names import Names
    from streamlint.run.searches import Search

MOST_KEPT = 4_000_000
"""Characters of source that are kept indexed."""
MOST_SEARCHES = 1_000
"""Searches whose answers are kept."""

Called: TypeAlias = "Mapping[bytes, list[Path]]"
"""Files by the names that they call."""
Key: TypeAlias = "tuple[Path, str, str, bool]"
"""A file, its path in the project, the name that it has as a module, and whether it is a package."""


@frozen()
class Ran:
    """An entry of a file that was run."""

    label: str
    covered: frozenset[str]
    """Functions that its paths came by, as ``module:qualified.name``."""
    pairs: frozenset[Pair]
    """What was found on them."""
    seconds: float
    """What it took."""


@frozen()
class Seen:
    """What files held when what is kept of earlier runs was asked for."""

    analyzer: Snapshot
    disk: Snapshot
    """Its stamps can be relied on."""
    texts: Snapshot
    """With what was read in the place of files, and what was searched for in all of it."""


@dataclass(slots=True)
class Warm:
    """What was worked out for earlier questions."""

    ran: dict[Path, tuple[Ran, ...]] = field(default_factory=dict)
    """The entries of the files that were analyzed whole, the last time."""
    around: dict[tuple[Path, tuple[str, ...]], tuple[Path, ...]] = field(default_factory=dict)
    """The files of projects, by their root and what they leave out, as long as they are taken to be those."""
    seen: dict[tuple[Path, Path], Seen] = field(default_factory=dict)
    """By the folder in which results are kept, and the root."""
    looked: Looked = field(default_factory=set)
    """Functions of the modules below whose code was looked at for the question at hand."""
    _named: tuple[object, Names] | None = None
    _called: tuple[object, Called] | None = None
    _searched: tuple[object, dict[Search, list[Path]]] | None = None
    _modules: dict[Key, tuple[str, ir.Module]] = field(default_factory=dict)
    _lowered: dict[Key, Lowered] = field(default_factory=dict)
    _size: int = 0

    def forget_disk(self) -> None:
        """Files may have changed that are not open."""
        self.around.clear()
        self._called = self._searched = None

    def named(self, files: object, make: Callable[[], Names]) -> Names:
        """What the modules are called of files that are told by ``files``."""
        if self._named is None or self._named[0] != files:
            self._named = files, make()
        return self._named[1]

    def called(self, files: object, look: Callable[[], Called]) -> Called:
        """What files on the disk call, which are told by ``files``."""
        if self._called is None or self._called[0] != files:
            self._called = files, look()
        return self._called[1]

    def searched(self, files: object, search: Search, look: Callable[[], list[Path]]) -> list[Path]:
        """The files on the disk, which are told by ``files``, that match a search."""
        if self._searched is None or self._searched[0] != files or len(self._searched[1]) > MOST_SEARCHES:
            self._searched = files, {}
        known = self._searched[1]
        if search not in known:
            known[search] = look()
        return known[search]

    def index(self, text: str, path: Path, where: str, name: str, is_package: bool) -> ir.Module:
        """What ``index_module`` gives. Raises ``ir.LoweringError`` as it does."""
        from streamlint.lower import Lowered, index_module

        key = path, where, name, is_package
        known = self._modules.get(key)
        if known is not None and known[0] == text:
            return known[1]
        if self._size > MOST_KEPT:
            self._modules.clear()
            self._lowered.clear()
            self._size = 0
        lowered = self._lowered.setdefault(key, Lowered())
        module = index_module(text, where, name, is_package, lowered, self.looked)
        self._size += len(text) - len(self._modules.get(key, ("",))[0])
        self._modules[key] = text, module
        return module
