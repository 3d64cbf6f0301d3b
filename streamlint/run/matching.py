"""Which files of a tree match a search; what they call is gathered once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from streamlint.run import searches
from streamlint.run.searches import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from streamlint.run.searches import Search
    from streamlint.run.tree import Tree
    from streamlint.run.warm import Called


class Matching:
    """The answers of searches, for all files of a run."""

    def __init__(self, tree: Tree, found: Mapping[Search, tuple[str, ...]] | None = None) -> None:
        self.tree = tree
        self.paths = tree.named.of_files
        self.asked: dict[Search, tuple[str, ...]] = {}
        """What the file at hand has asked, and so rests on."""
        self._found = dict(found or {})
        """Answers as far as they are known."""
        self._modules: dict[Search, tuple[str, ...]] = {}
        """Modules whose files match: a function may have thousands of findings about one event."""
        self._wider: dict[Search, list[Path]] = {}
        self._names: set[str] = set()
        self._called: Called | None = None

    @cached_property
    def _in_order(self) -> list[Path]:
        return sorted(self.paths, key=self.tree.relative)

    def modules(self, search: Search) -> tuple[str, ...]:
        """The modules whose files match a search."""
        if search not in self._found:
            found = sorted(map(self.tree.relative, self._files(search)))
            self._found[search] = tuple(found[:1] if search.ends_at_first else found)
        matching = self.asked[search] = self._found[search]
        if search not in self._modules:
            self._modules[search] = tuple(sorted(self.tree.named.of_places[where] for where in matching))
        return self._modules[search]

    def _files(self, search: Search) -> Sequence[Path]:
        """The files that match: thousands of functions are asked who calls them."""
        if search.kind is not Kind.CALLS:
            return self._that_match(search)
        if self._called is None:
            self._called = self._by_call()
        return self._called.get(search.words[0].encode("utf-8", "surrogatepass"), ())

    def _that_match(self, search: Search) -> list[Path]:
        """Those on the disk are read once for the questions of an editor."""
        opened, warm = self.tree.overlay, self.tree.warm
        there = self._where(search)
        if warm is None:
            return search.among(there, self.tree.data)
        shut = (path for path in there if path not in opened)
        found = warm.searched(
            (self.tree.files, frozenset(opened)), search, lambda: search.among(shut, self.tree.data)
        )
        return [*found, *search.among((path for path in there if path in opened), self.tree.data)]

    def _where(self, search: Search) -> list[Path]:
        """The files among which those are that match: all, or what an earlier question has left."""
        wider = search.wider
        for word in search.words if search.kind is Kind.NAMES and len(search.words) > 1 else ():
            # One module with each of many others: the second time, those that name it are looked for.
            if word in self._names:
                wider = searches.names(word)
            self._names.add(word)
        if wider is None:
            return self._in_order
        if wider not in self._wider:
            self._wider[wider] = self._that_match(wider)
        return self._wider[wider]

    def _by_call(self) -> Called:
        """Files by what they call; those on the disk are read once for the questions of an editor."""
        opened, warm = self.tree.overlay, self.tree.warm
        shut = (path for path in self.paths if path not in opened)
        if warm is None:
            return self._calls_in(self.paths)
        there = warm.called((self.tree.files, frozenset(opened)), lambda: self._calls_in(shut))
        called = dict(there)
        for name, paths in self._calls_in(path for path in self.paths if path in opened).items():
            called[name] = [*paths, *called.get(name, ())]
        return called

    def _calls_in(self, paths: Iterable[Path]) -> dict[bytes, list[Path]]:
        called: dict[bytes, list[Path]] = {}
        for path in paths:
            for name in searches.called_in(self.tree.data(path) or b""):
                called.setdefault(name, []).append(path)
        return called
