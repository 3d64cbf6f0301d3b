"""The analysis in several processes."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from streamlint.finding import SourceError
from streamlint.frozen import replace
from streamlint.prefilter import may_touch_gpu
from streamlint.run import collector, pool
from streamlint.run.results import FileResult, Settings

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path

    from streamlint.run.searches import Search
    from streamlint.run.session import Session
    from streamlint.run.tree import Tree

Results: TypeAlias = "Generator[tuple[Path, FileResult], None, None]"
"""What files give, in the order in which they are done."""

WORTH_A_POOL = 150_000
"""Less text than this is analyzed in this process: that takes two seconds, and to start another takes one."""
MERE_TEXT = 0.01
"""How much a byte of a file without GPU code counts for that: it is only parsed."""


def is_worth_a_pool(tree: Tree, wanted: Sequence[Path]) -> bool:
    work = 0.0
    for path in wanted:
        work += cost(tree, path)
        if work >= WORTH_A_POOL:
            return True
    return False


def cost(tree: Tree, path: Path) -> float:
    """What a file is likely to cost, in bytes of GPU code."""
    data = tree.data(path) or b""
    return len(data) * (1 if may_touch_gpu(data) else MERE_TEXT)


@dataclass(slots=True)
class Work:
    """What a worker process does: it has a session of its own."""

    root: Path
    files: tuple[Path, ...]
    settings: Settings
    found: Mapping[Search, tuple[str, ...]]
    session: Session | None = None

    def start(self) -> None:
        from streamlint.run.session import Session

        collector.start()
        settings = replace(self.settings, evidence=False)
        self.session = Session(self.root, self.files, settings, {}, self.found)

    def do(self, path: Path) -> FileResult:
        from streamlint.run.session import collected

        assert self.session is not None
        return collected(self.session, path)


def from_workers(
    tree: Tree,
    settings: Settings,
    wanted: Sequence[Path],
    jobs: int,
    found: Mapping[Search, tuple[str, ...]],
) -> Results:
    """Largest files first. A file that no worker gets through is an error; the others are kept."""
    work = Work(tree.root, tuple(tree.files), settings, found)
    with closing(pool.answers(largest_first(wanted), work, tree.root, jobs)) as answers:
        for path, answer in answers:
            yield path, result(tree, path, answer)


def result(tree: Tree, path: Path, answer: object) -> FileResult:
    """What a worker gave for a file; ``Lost`` is an error."""
    if isinstance(answer, pool.Lost):
        return FileResult(errors=(SourceError(tree.relative(path), 0, answer.reason),))
    return cast("FileResult", answer)


def largest_first(paths: Sequence[Path]) -> list[Path]:
    return sorted(paths, key=_size, reverse=True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
