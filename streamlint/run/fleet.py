"""The analysis on other machines, behind ``concurrent.futures.Executor``: ``--executor dask://HOST:PORT``.

A task is some files. Where it runs, a worker process as ``--jobs`` has them does it: nothing of the tree is
on its path, and one that dies takes no more with it than itself. The machines have the same version of
streamlint, and the tree under the same path.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from streamlint import __version__
from streamlint.errors import UserError
from streamlint.finding import SourceError
from streamlint.frozen import frozen
from streamlint.run import parallel, pool
from streamlint.run.results import FileResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from streamlint.run.parallel import Results, Work
    from streamlint.run.results import Settings
    from streamlint.run.searches import Search
    from streamlint.run.tree import Tree

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds in which a scheduler answers."""
NOBODY = 300.0
"""Seconds to wait for a worker where there is none: machines that are asked for need a while to start."""
QUIET = 5.0
"""Seconds without a result after which the scheduler is asked whether it and its workers are still there."""
CLOSING = 0.4
"""Seconds to take leave: what the scheduler has not heard then, it notices by itself."""
TASK = 500_000
"""Text of a task, in bytes of GPU code: to start a process for it takes a tenth of the time."""


class _LostError(Exception):
    """There is nobody any more who would do the rest."""


@frozen()
class Fleet:
    executor: Executor
    workers: Callable[[], int]
    """How many there are now. Whatever it raises, the scheduler is lost."""


def from_executor(
    tree: Tree, settings: Settings, wanted: Sequence[Path], found: Mapping[Search, tuple[str, ...]]
) -> Results:
    """Raises UserError where there is no such executor."""
    work = parallel.Work(tree.root, tuple(tree.files), settings, found)
    with _connected(settings.executor) as fleet:
        yield from answers(fleet, tree, work, wanted)


@contextmanager
def _connected(address: str) -> Iterator[Fleet]:
    scheme, _, place = address.partition("://")
    if scheme != "dask" or not place:
        raise UserError(f"--executor: `{address}` is not of the form dask://HOST:PORT")
    try:
        from distributed import Client
    except ImportError as error:
        raise UserError("--executor needs Dask: install streamlint with its extra `dask`") from error
    try:
        client = _within(PATIENCE, lambda: Client(f"tcp://{place}", timeout=PATIENCE, set_as_default=False))
    except Exception as error:
        raise UserError(f"--executor: no scheduler answers at `{address}`: {_told(error)}") from error
    try:
        # Equal tasks of two runs are two: files may have changed.
        executor = client.get_executor(pure=False)
        yield Fleet(executor, lambda: _within(PATIENCE, lambda: len(client.nthreads())))
    finally:
        with suppress(Exception):
            _within(CLOSING, client.close)


def _within(seconds: float, call: Callable[[], T]) -> T:
    """What a call gives, or TimeoutError: calls of Dask may wait for an answer for good.

    A port that takes connections and never says a word is enough for that.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    if not wait([answer], timeout=seconds).done:
        raise TimeoutError(f"no answer in {seconds:g} s")
    return answer.result()


def answers(fleet: Fleet, tree: Tree, work: Work, wanted: Sequence[Path]) -> Results:
    """What the files give, as tasks are done. Those of a task that fails are errors.

    Files for which a task could start no process are left out.
    """
    tasks = {fleet.executor.submit(_do, __version__, work, paths): paths for paths in _tasks(tree, wanted)}
    left = set(tasks)
    manned = time.monotonic()
    try:
        while left:
            done, left = wait(left, timeout=QUIET, return_when=FIRST_COMPLETED)
            for task in done:
                yield from _of_task(task, tree, tasks[task])
            if done or _workers(fleet):
                manned = time.monotonic()
            elif time.monotonic() - manned > NOBODY:
                raise _LostError(f"there has been no worker for {NOBODY:g} s")
    except _LostError as error:
        for task in left:
            yield from _failed(tree, tasks[task], str(error))
    finally:
        with suppress(Exception):
            _within(CLOSING, lambda: [task.cancel() for task in left])


def _workers(fleet: Fleet) -> int:
    try:
        return fleet.workers()
    except Exception as error:
        raise _LostError(f"the scheduler does not answer any more: {_told(error)}") from error


def _of_task(task: Future[dict[Path, object]], tree: Tree, paths: Sequence[Path]) -> Results:
    try:
        given = _checked(task.result(), paths)
    except CancelledError:
        yield from _failed(tree, paths, "the scheduler has lost it")
    except Exception as error:
        yield from _failed(tree, paths, _told(error))
    else:
        for path, answer in given.items():
            yield path, parallel.result(tree, path, answer)


def _checked(given: object, paths: Sequence[Path]) -> dict[Path, object]:
    """What ``_do`` gave, if it was that which ran: a worker says what it likes."""
    if not isinstance(given, dict) or not given.keys() <= set(paths):
        raise TypeError("what came back is no result")
    if not all(isinstance(answer, FileResult | pool.Lost) for answer in given.values()):
        raise TypeError("what came back is no result")
    return given


def _failed(tree: Tree, paths: Sequence[Path], why: str) -> Results:
    for path in paths:
        what = f"not analyzed by the executor: {why}"
        yield path, FileResult(errors=(SourceError(tree.relative(path), 0, what),))


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


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


def _do(version: str, work: Work, paths: Sequence[Path]) -> dict[Path, object]:
    """A task, where it runs."""
    if version != __version__:
        raise RuntimeError(f"streamlint {__version__} is installed there, and {version} here")
    with closing(pool.answers(paths, work, work.root, 1)) as done:
        return dict(done)
