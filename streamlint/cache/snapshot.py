"""What the files of a tree hold at one moment, by digests, without reading those that cannot have changed."""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from streamlint.cache.store import digest
from streamlint.files import UnreadableError, read_source
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

UNREADABLE = ""
"""Instead of a digest."""
FRESH = 2_000_000_000
"""Nanoseconds: a file that was changed so short a time ago may be changed again and show the same time."""

Stamp: TypeAlias = "tuple[int, int, int, int]"
"""When a file and its entry were changed, its size, and its number."""


@frozen()
class Snapshot:
    """Digests and stamps by path, and what was searched for in all of these files.

    One that was kept has the stamps only that can be relied on; see ``settled``.
    """

    digests: Mapping[str, str] = field(default_factory=dict)
    stamps: Mapping[str, Stamp] = field(default_factory=dict)
    taken: int = 0
    """When, in nanoseconds."""
    searches: Mapping[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    """What was looked for, with the paths of the files that match."""

    def changed(self, earlier: Snapshot) -> frozenset[str]:
        """The files that have another digest than they had, or none then."""
        return frozenset(path for path, found in self.digests.items() if found != earlier.digests.get(path))

    def settled(self) -> dict[str, Stamp]:
        """Stamps of the files that have kept still for a while: an equal stamp then means an equal text."""
        return {path: stamp for path, stamp in self.stamps.items() if max(stamp[:2]) < self.taken - FRESH}

    def same_as(self, kept: Snapshot) -> bool:
        """Whether nothing would be new in it."""
        return (self.digests, self.settled(), self.searches) == (kept.digests, kept.stamps, kept.searches)

    def moved(self, files: Mapping[str, Path], limit: int) -> frozenset[str]:
        """The files that were changed since."""
        settled = self.settled()
        return frozenset(
            path
            for path, found in self.digests.items()
            if stamp_of(files[path]) != self.stamps.get(path)
            or (path not in settled and found != _digest(files[path], limit))
        )

    def dump(self) -> bytes:
        settled = self.settled()
        files = [(path, found, settled.get(path)) for path, found in self.digests.items()]
        return json.dumps([files, list(self.searches.items())], separators=(",", ":")).encode()


def load(data: bytes | None) -> Snapshot:
    """A snapshot that was kept; an empty one if it is none."""
    try:
        files, searches = json.loads(data or b"[[], []]")
        return Snapshot(
            {str(path): str(found) for path, found, _ in files},
            {path: _stamp(stamp) for path, _, stamp in files if stamp is not None},
            searches={tuple(map(str, words)): tuple(map(str, paths)) for words, paths in searches},
        )
    except (ValueError, TypeError, RecursionError):
        return Snapshot()


def _stamp(numbers: list[int]) -> Stamp:
    changed, entry, size, number = numbers
    return changed, entry, size, number


def take(files: Mapping[str, Path], earlier: Snapshot, limit: int) -> Snapshot:
    """Looks at files; reads those whose stamp is another than it was."""
    digests: dict[str, str] = {}
    stamps: dict[str, Stamp] = {}
    now = time.time_ns()
    for path, place in files.items():
        stamp = stamp_of(place)
        if stamp is None:
            digests[path] = UNREADABLE
            continue
        stamps[path] = stamp
        same = stamp == earlier.stamps.get(path)
        digests[path] = earlier.digests[path] if same else _digest(place, limit)
    return Snapshot(digests, stamps, now)


def stamp_of(place: Path) -> Stamp | None:
    try:
        found = os.stat(place)  # noqa: PTH116  (for each file of a tree)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _digest(place: Path, limit: int) -> str:
    try:
        return digest(read_source(place, limit)).hex()
    except UnreadableError:
        return UNREADABLE
