"""By what a result is kept, beside what was read: all that the analyzer itself is made of."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.cache import snapshot
from streamlint.cache.store import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.cache.snapshot import Snapshot

HERE = Path(__file__).parents[1]
PLACE = b"the analyzer"
_CODE = (".py", ".so", ".pyd")
MOST_BYTES = 50_000_000


def look(earlier: Snapshot) -> Snapshot:
    """The files of this package as they are: in an editable installation they change under one version."""
    files = {os.path.relpath(path, HERE): Path(path) for path in _files(os.fspath(HERE))}
    return snapshot.take(files, earlier, MOST_BYTES)


def of(own: Snapshot) -> bytes:
    """Stands for the code of the analyzer and for the Python that runs it, which says what can be parsed."""
    parts = [sys.version, sys.implementation.cache_tag or "", sys.platform]
    for path, found in sorted(own.digests.items()):
        parts += path, found
    return digest(*(part.encode("utf-8", "surrogateescape") for part in parts))


def _files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_CODE):
                yield entry.path
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _files(entry.path)
