"""The analysis on other machines, behind ``concurrent.futures.Executor``: ``--executor dask://HOST:PORT``.

A task is some files. Where it runs, a worker process as ``--jobs`` has them does it: nothing of the tree is
on its path, and one that dies takes no more with it than itself. The machines have the same version of
streamlint, and the tree under the same path.
"""

from __future__ import annotations

from concurrent.futures import as_completed
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from streamlint import __version__
from streamlint.errors import UserError
from streamlint.finding import SourceError
from streamlint.run import parallel, pool
from streamlint.run.results import FileResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from streamlint.run.parallel import Results, Work
    from streamlint.run.results import Settings
    from streamlint.run.searches import Search
    from streamlint.run.tree import Tree

PATIENCE = 30
"""Seconds to wait for a scheduler."""
TASK = 500_000
"""Text of a task, in bytes of GPU code: to start a process for it takes a tenth of the time."""


def from_executor(
    tree: Tree, settings: Settings, wanted: Sequence[Path], found: Mapping[Search, tuple[str, ...]]
) -> Results:
    """Raises UserError where there is no such executor."""
    work = parallel.Work(tree.root, tuple(tree.files), settings, found)
    with _connected(settings.executor) as executor:
        yield from answers(executor, tree, work, wanted)


@contextmanager
def _connected(address: str) -> Iterator[Executor]:
    scheme, _, place = address.partition("://")
    if scheme != "dask" or not place:
        raise UserError(f"--executor: `{address}` is not of the form dask://HOST:PORT")
    try:
        from distributed import Client
    except ImportError as error:
        raise UserError("--executor needs Dask: install streamlint with its extra `dask`") from error
    try:
        client = Client(f"tcp://{place}", timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise UserError(f"--executor: no scheduler answers at `{address}`: {error}") from error
    with client:
        # Equal tasks of two runs are two: files may have changed.
        yield client.get_executor(pure=False)


def answers(executor: Executor, tree: Tree, work: Work, wanted: Sequence[Path]) -> Results:
    """What the files give, as tasks are done. Those of a task that fails are errors."""
    tasks = {executor.submit(_do, __version__, work, paths): paths for paths in _tasks(tree, wanted)}
    try:
        for task in as_completed(tasks):
            error = task.exception()
            if error is None:
                for path, answer in task.result():
                    yield path, parallel.result(tree, path, answer)
            else:
                what = f"not analyzed by the executor: {type(error).__name__}: {error}"
                for path in tasks[task]:
                    yield path, FileResult(errors=(SourceError(tree.relative(path), 0, what),))
    finally:
        for task in tasks:
            task.cancel()


def _tasks(tree: Tree, wanted: Sequence[Path]) -> Iterator[list[Path]]:
    """The largest files first, so that no long task is left to the end."""
    paths: list[Path] = []
    cost = 0.0
    for path in parallel.largest_first(wanted):
        paths.append(path)
        cost += parallel.cost(tree, path)
        if cost >= TASK:
            yield paths
            paths, cost = [], 0.0
    if paths:
        yield paths


def _do(version: str, work: Work, paths: Sequence[Path]) -> list[tuple[Path, object]]:
    """A task, where it runs."""
    if version != __version__:
        raise RuntimeError(f"streamlint {__version__} is installed there, and {version} here")
    with closing(pool.answers(paths, work, work.root, 1)) as done:
        return list(done)
