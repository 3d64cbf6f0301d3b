"""Which file a worker process gets next: one beside those that it has done, whose imports it has read."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_Folder: TypeAlias = "tuple[str, ...]"

DEPTH = 3
"""Folders below the root that tell files apart: ``vllm/v1/worker``."""


@dataclass(slots=True)
class Waiting:
    """Paths that no worker has yet: those of one folder are for one worker, as long as there are others."""

    root: Path
    _folders: dict[_Folder, deque[Path]] = field(default_factory=dict)
    _again: deque[Path] = field(default_factory=deque)

    @classmethod
    def of(cls, paths: Iterable[Path], root: Path) -> Waiting:
        """Paths to be taken in this order in a folder; so are folders, by the first of each."""
        waiting = cls(root)
        for path in paths:
            waiting._folders.setdefault(waiting._folder(path), deque()).append(path)
        return waiting

    def __len__(self) -> int:
        return sum(map(len, self._folders.values())) + len(self._again)

    def __iter__(self) -> Iterator[Path]:
        return chain(*self._folders.values(), self._again)

    def put_last(self, path: Path) -> None:
        """Is taken when nothing else is left."""
        self._again.append(path)

    def take(self, last: Path | None, elsewhere: Iterable[Path]) -> Path:
        """The next path for a worker, by what it has done ``last`` and what others are at ``elsewhere``."""
        if not self._folders:
            return self._again.popleft()
        folder = self._folder(last) if last is not None else None
        if folder is None or folder not in self._folders:
            taken = {self._folder(path) for path in elsewhere}
            folder = next((each for each in self._folders if each not in taken), next(iter(self._folders)))
        paths = self._folders[folder]
        path = paths.popleft()
        if not paths:
            del self._folders[folder]
        return path

    def _folder(self, path: Path) -> _Folder:
        inside = path.relative_to(self.root) if path.is_relative_to(self.root) else path
        return inside.parts[:-1][:DEPTH]
