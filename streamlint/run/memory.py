"""What earlier runs found in a tree, as far as all that they read is still as it was.

A result is kept by the text of its file, together with what was read to get it: names of modules that were
looked up, found or not, and searches through the whole tree. It holds where each of these has the same
answer: the same module in a file of the same text, or still none; the same files that match. Of a module in
which only some functions were looked at, any text is as good in which these are the same, and so is all that
is known of the others without their code. The report of a run is kept by the texts of all files. A text that
is read in the place of a file is as good as what the file holds: when it is saved, what it gave is known.
"""

from __future__ import annotations

import json
import os
from pathlib import PurePath
from typing import TYPE_CHECKING

from streamlint.cache import codec, identity, snapshot
from streamlint.cache.store import Row, Store, digest
from streamlint.files import UnreadableError, read_source, relative
from streamlint.finding import Report
from streamlint.frozen import frozen, replace
from streamlint.run.results import FileResult, Part, Reads
from streamlint.run.searches import Kind, Search
from streamlint.run.warm import Seen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from streamlint.cache.snapshot import Snapshot
    from streamlint.run.results import Settings
    from streamlint.run.tree import Tree
    from streamlint.run.warm import Warm

MOST_CHANGED = 100
"""Where more files have changed, searches start anew when they are asked for."""


class Memory:
    """What is known of a tree, and what it is to be kept by."""

    def __init__(
        self,
        folder: Path,
        root: Path,
        files: Sequence[Path],
        settings: Settings,
        overlay: Mapping[Path, bytes] | None = None,
        warm: Warm | None = None,
    ) -> None:
        self._store = Store(folder)
        self._warm = warm
        seen = warm.seen.get((folder, root)) if warm is not None else None
        self._about = folder, root
        self._place = os.fsencode(root)
        self._files = {relative(path, root): path for path in files}
        self._limit = settings.max_file_bytes
        self._known_self = seen.analyzer if seen else snapshot.load(self._store.tree(identity.PLACE))
        self._self = seen.analyzer if seen else identity.look(self._known_self)
        about = f"{settings.default_stream} {settings.max_file_bytes} {settings.fix_possible} {root.name}"
        self._prefix = digest(identity.of(self._self), _bytes(about))
        self._earlier = seen.texts if seen else snapshot.load(self._store.tree(self._place))
        self._disk = snapshot.take(self._files, seen.disk if seen else self._earlier, self._limit)
        instead = {relative(path, root): text for path, text in (overlay or {}).items()}
        self._instead = {path: text for path, text in instead.items() if path in self._files}
        """Texts that are read in the place of files."""
        digests = {path: digest(text).hex() for path, text in self._instead.items()}
        self._now = replace(self._disk, digests={**self._disk.digests, **digests})
        self._changed = self._now.changed(self._earlier)
        self._places: dict[str, tuple[str, str] | None] = {}
        """The own name of a module, and its file, by the names that were looked up."""
        self._parts: dict[str, Part | None] = {}
        """All that there is to look at in a module, by its own name; None if it cannot be read."""
        self.searches = self._known_searches()
        """Searches whose answers are known: the paths of the files that match, in one order."""

    def _known_searches(self) -> dict[Search, tuple[str, ...]]:
        """What was searched for earlier: only the files that have changed since are asked again."""
        if len(self._changed) > MOST_CHANGED:
            return {}
        texts = {path: self._text(path) for path in self._changed}
        known: dict[Search, tuple[str, ...]] = {}
        for words, paths in self._earlier.searches.items():
            search = _search(*words)
            same = {path for path in paths if path in self._now.digests and path not in self._changed}
            new = {path for path, text in texts.items() if search.matches(text)}
            matching = sorted(same | new)
            if not search.ends_at_first:
                known[search] = tuple(matching)
            elif same or not paths or (matching and matching[0] <= paths[0]):
                known[search] = tuple(matching[:1])  # else one of those behind may be the first now
        return known

    # ------------------------------------------------------------------------- a whole run

    def report(self, wanted: Sequence[Path], root: Path) -> Report | None:
        """What a run over the same files gave, all texts being the same."""
        for row in self._store.results([self._report_key(wanted, root)]):
            report = codec.load(row.value)
            if report is not None:
                self._keep(self._now, [])
                return report
        return None

    def _report_key(self, wanted: Sequence[Path], root: Path) -> bytes:
        texts = "\0".join(f"{path}\0{found}" for path, found in sorted(self._now.digests.items()))
        focus = "\0".join(relative(path, root) for path in wanted)
        return digest(b"report", self._prefix, _bytes(texts), _bytes(focus))

    # ------------------------------------------------------------------------- single files

    def results(self, tree: Tree, wanted: Sequence[Path]) -> dict[Path, FileResult]:
        """What is known of files."""
        names = tree.named.of_files
        keys = {self._key(tree.relative(path), names[path]): path for path in wanted}
        found: dict[Path, FileResult] = {}
        for row in self._store.results(list(keys)):
            path = keys[row.key]
            if path in found:
                continue
            reads = _load_reads(row.reads)
            if reads is None or self._answer(tree, reads) != row.answer:
                continue
            report = codec.load(row.value)
            if report is not None:
                found[path] = _result_of(report)
        return found

    def _text(self, path: str) -> bytes | None:
        if path in self._instead:
            return self._instead[path]
        try:
            return read_source(self._files[path], self._limit)
        except UnreadableError:
            return None

    def _key(self, path: str, name: str) -> bytes:
        return digest(b"file", self._prefix, _bytes(f"{path}\0{name}\0{self._now.digests[path]}"))

    def _answer(self, tree: Tree, reads: _Kept) -> bytes:
        """What there is to read by these names and searches."""
        parts = [self._module(tree, name, reads.parts) for name in reads.modules]
        names = tree.named.of_files if reads.searches else {}
        for search in reads.searches:
            if search not in self.searches:
                self.searches[search] = tuple(search.among(sorted(self._files), self._text))
            matching = self.searches[search]
            if search.ends_at_first:
                parts.append(_bytes(str(bool(matching))))
            else:
                parts += [_bytes(f"{path}\0{names[self._files[path]]}") for path in matching]
            parts.append(b"")
        return digest(*parts)

    def _module(self, tree: Tree, name: str, parts: Mapping[str, _PartThen]) -> bytes:
        """The module that a name stands for: its own name, its file and its text, or one as good."""
        if name not in self._places:
            place = tree.named.place(name)
            self._places[name] = None if place is None else (place[0], tree.relative(place[1]))
        found = self._places[name]
        if found is None:
            return b""
        own, path = found
        then, now = parts.get(own), self._now.digests[path]
        if then is not None and then.text != now and self._is_still(tree, own, then.part):
            now = then.text
        return _bytes(f"{own}\0{path}\0{now}")

    def _is_still(self, tree: Tree, name: str, part: Part) -> bool:
        """Whether what somebody looked at in a module is as it was."""
        if name not in self._parts:
            from streamlint.run.outlines import whole

            module = tree.load(name)
            self._parts[name] = None if module is None else whole(module)
        now = self._parts[name]
        return now is not None and part.outline == now.outline and part.bodies <= now.bodies

    # ------------------------------------------------------------------------- what is kept

    def keep(
        self, tree: Tree, wanted: Sequence[Path], done: Mapping[Path, FileResult], report: Report | None
    ) -> None:
        """Keeps what was found just now: what files gave, and the report if another run would give the same.

        What rests on a file that was changed meanwhile is not kept.
        """
        moved = self._disk.moved(self._files, self._limit)
        rows: list[Row] = []
        names = tree.named.of_files
        for path, result in done.items():
            if result.reads is None or self._rests_on(tree, path, result.reads, moved):
                report = None
                continue
            self.searches.update(result.reads.searches)
            value = codec.dump(_report_of(tree.relative(path), result))
            reads = self._kept(tree, result.reads, value)
            rows.append(
                Row(
                    self._key(tree.relative(path), names[path]),
                    reads.dump(),
                    self._answer(tree, reads),
                    value,
                )
            )
        if report is not None and not moved:
            rows.append(Row(self._report_key(wanted, tree.root), b"", b"", codec.dump(report)))
        still = {path: found for path, found in self._now.digests.items() if path not in moved}
        self._keep(replace(self._now, digests=still), rows)

    def _kept(self, tree: Tree, reads: Reads, value: bytes) -> _Kept:
        """With the texts that modules have now. Who names a file tells of its lines: of all of it."""
        parts: dict[str, _PartThen] = {}
        for name, part in reads.parts.items():
            path = tree.relative(tree.named.own[name][0])
            if _bytes(json.dumps(PurePath(path).name)[1:-1]) not in value:
                parts[name] = _PartThen(self._now.digests[path], part)
        return _Kept(sorted(reads.modules), sorted(reads.searches, key=_words), parts)

    def _rests_on(self, tree: Tree, path: Path, reads: Reads, moved: frozenset[str]) -> bool:
        if not moved:
            return False
        places = (tree.named.place(name) for name in reads.modules)
        paths = {tree.relative(place[1]) for place in places if place is not None}
        return bool(reads.searches) or not moved.isdisjoint({tree.relative(path), *paths})

    def _keep(self, now: Snapshot, rows: Sequence[Row]) -> None:
        now = replace(now, searches={_words(search): paths for search, paths in self.searches.items()})
        if self._warm is not None:
            disk = replace(self._disk, stamps=self._disk.settled())
            self._warm.seen[self._about] = Seen(self._self, disk, now)
        pairs = [(identity.PLACE, self._known_self, self._self)]
        if not self._instead:  # else it is not what the files hold
            pairs.append((self._place, self._earlier, now))
        states = [(place, found.dump()) for place, earlier, found in pairs if not found.same_as(earlier)]
        self._store.keep(states, rows)
        self._store.close()


def _words(search: Search) -> tuple[str, ...]:
    return (search.kind.value, *search.words)


def _search(kind: str, *words: str) -> Search:
    return Search(Kind(kind), words)


@frozen()
class _PartThen:
    """What was looked at of a module that had this text."""

    text: str
    part: Part


@frozen()
class _Kept:
    """``Reads`` in one order, as they stand in the store; ``parts`` by the names of modules."""

    modules: Sequence[str]
    searches: Sequence[Search]
    parts: Mapping[str, _PartThen]

    def dump(self) -> bytes:
        parts = {
            name: [then.text, then.part.outline.hex(), sorted(body.hex() for body in then.part.bodies)]
            for name, then in sorted(self.parts.items())
        }
        return json.dumps([self.modules, [_words(search) for search in self.searches], parts]).encode()


def _load_reads(data: bytes) -> _Kept | None:
    try:
        modules, searches, parts = json.loads(data)
        return _Kept(
            modules,
            [_search(*words) for words in searches],
            {
                name: _PartThen(text, Part(bytes.fromhex(known), frozenset(map(bytes.fromhex, bodies))))
                for name, (text, known, bodies) in parts.items()
            },
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _report_of(path: str, result: FileResult) -> Report:
    marked = frozenset({path} if result.marked else ())
    return Report(result.findings, result.errors, 1, int(result.analyzed), result.statistics, marked)


def _result_of(report: Report) -> FileResult:
    """What a file gave, as it was kept; it need not be kept again."""
    marked = report.marked is None or bool(report.marked)
    return FileResult(
        report.findings, report.errors, bool(report.analyzed), report.statistics, marked, Reads()
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
