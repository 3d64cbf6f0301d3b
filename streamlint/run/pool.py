"""Worker processes: which file goes to which, and what becomes of the work of one that dies.

A worker is a program of its own (``worker``), asked through its standard input. A thread here for each of
them sends and receives, which works alike on all platforms; whatever is decided is decided in ``answers``.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import site
import subprocess
import sys
import sysconfig
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import frozen
from streamlint.run import worker as program
from streamlint.run.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from streamlint.run.worker import Work


@frozen()
class Patience:
    """How long a worker may be at one file.

    The analysis has budgets of its own, far below. This is for what they do not see: one endless call into C.
    """

    cpu: float = 240.0
    """CPU time, in seconds: on a busy machine time on the clock is over for files that others get through."""
    clock: float = 2400.0 if hasattr(signal, "setitimer") else 240.0
    """Time on the clock: for what waits without end, and where CPU time cannot be limited (Windows)."""


PATIENCE = Patience()


@frozen()
class Lost:
    """Instead of an answer: why there is none."""

    reason: str
    again: bool = False
    """Whether another worker may have more luck."""


Inbox: TypeAlias = "queue.SimpleQueue[tuple[_Worker, object]]"


def count(wanted: int, files: int) -> int:
    """How many processes are worth having: no more than cores or files. 0 wants one for each core."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, min(wanted or cores, cores, files))


def answers(
    paths: Sequence[Path], work: Work, root: Path, workers: int, patience: Patience = PATIENCE
) -> Generator[tuple[Path, object], None, None]:
    """What ``work`` gives for each path, as it comes, or ``Lost``. Close it to end the workers early.

    Paths of one folder go to one worker, as long as there are others (``Waiting``). A path whose worker dies
    goes to another worker, after all the others: what takes all memory is then alone with it. If that one
    dies too, the path is lost. A worker that dies before it is ready is not replaced. If no worker is left
    the rest is not answered.
    """
    crew = _Crew(work, _path_without(root), patience)
    waiting = Waiting.of(paths, root)
    died: set[Path] = set()
    try:
        crew.start(min(workers, len(waiting)))
        while crew.workers:
            worker, answer = crew.next_message()
            path = worker.path
            assert path is None or isinstance(path, Path), "what `answers` gave it"
            if isinstance(answer, Lost):
                crew.dismiss(worker)
                if path is None:
                    continue
                if answer.again and path not in died:
                    died.add(path)
                    waiting.put_last(path)
                else:
                    yield path, answer
                crew.start(min(1, len(waiting)))
                continue
            if path is not None:
                yield path, answer
            if waiting:
                others = (each.path for each in crew.workers if each is not worker)
                worker.take(waiting.take(path, (each for each in others if isinstance(each, Path))))
            else:
                crew.dismiss(worker)
        yield from ((path, Lost(_DIED)) for path in waiting if path in died)
    finally:
        for worker in list(crew.workers):
            crew.dismiss(worker)


class Standing:
    """One worker that is kept between questions, and ended where an answer is no longer wanted."""

    def __init__(self, work: Work, root: Path) -> None:
        self._first = _first_message(work, PATIENCE)
        self._path = _path_without(root)
        self._inbox: Inbox = queue.SimpleQueue()
        self._worker: _Worker | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the process, if it is not there, and let it get ready."""
        with self._lock:
            if self._worker is None:
                self._inbox = queue.SimpleQueue()
                self._worker = _Worker(self._first, self._path, self._inbox, PATIENCE)

    def ask(self, question: object) -> object:
        """Return the answer, or ``Lost`` if the process ends before, by ``stop`` or by itself.

        One thread at a time may ask. Raises OSError if no process can be started.
        """
        self.start()
        with self._lock:
            worker, inbox = self._worker, self._inbox
        assert worker is not None, "just started"
        first = inbox.get()[1] if worker.path is None else None  # it says that it is ready
        if isinstance(first, Lost):
            self.stop()
            return first
        worker.take(question)
        answer = inbox.get()[1]
        if isinstance(answer, Lost):
            self.stop()
        return answer

    def stop(self) -> None:
        """End the process, whatever it is at. May be called from any thread."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()


_DIED = "the process that analyzed it was killed or crashed, and so was the next one"


class _Crew:
    """The workers that are there, and what they say."""

    def __init__(self, work: Work, path: Sequence[str], patience: Patience) -> None:
        self.workers: set[_Worker] = set()
        self._first = _first_message(work, patience)
        self._path = path
        self._patience = patience
        self._inbox: Inbox = queue.SimpleQueue()

    def start(self, number: int) -> None:
        """Start so many more, as far as the system lets us."""
        with suppress(OSError):
            for _ in range(number if sys.executable else 0):
                self.workers.add(_Worker(self._first, self._path, self._inbox, self._patience))

    def next_message(self) -> tuple[_Worker, object]:
        """What a worker says next: ``Lost`` where it has ended, or is too long at one file."""
        while True:
            next_one = min(self.workers, key=lambda worker: worker.until)
            try:
                worker, answer = self._inbox.get(timeout=max(0.0, next_one.until - time.monotonic()))
            except queue.Empty:
                return next_one, Lost(f"not done after {self._patience.clock:g} s")
            if worker in self.workers:
                return worker, answer

    def dismiss(self, worker: _Worker) -> None:
        worker.end()
        self.workers.discard(worker)


class _Worker:
    """One process, the path that it is at, and until when."""

    def __init__(self, first: bytes, path: Sequence[str], inbox: Inbox, patience: Patience) -> None:
        self.path: object = None
        self._patience = patience
        self.until = time.monotonic() + patience.clock
        self._process = subprocess.Popen(
            [*_interpreter(), program.__file__, str(Path(__file__).parents[1]), *path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C goes to a whole group of processes, and these are ended by the one that started them.
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._requests.put(first)
        self._thread = threading.Thread(target=self._talk, args=(inbox,), daemon=True)
        self._thread.start()

    def take(self, path: object) -> None:
        self.path, self.until = path, time.monotonic() + self._patience.clock
        self._requests.put(pickle.dumps(path))

    def end(self) -> None:
        """End the process, whatever it does. An idle one has nothing left to do either."""
        self._requests.put(None)
        self._process.kill()
        self._process.wait()
        self._thread.join()

    def _talk(self, inbox: Inbox) -> None:
        """In a thread: one answer for each request, until the process ends or is to end."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        try:
            while (request := self._requests.get()) is not None:
                asked.write(request)
                asked.flush()
                inbox.put((self, pickle.load(answers)))  # noqa: S301  (from a program of ours)
        except Exception:  # half a message is no answer either  # noqa: S110
            pass
        finally:
            inbox.put((self, self._why_it_ended()))
            for pipe in (asked, answers):
                with suppress(OSError):
                    pipe.close()

    def _why_it_ended(self) -> Lost:
        """There is no answer. Most often it has ended; what sends half a message is of no use either."""
        self._process.kill()
        if self._process.wait() == -getattr(signal, "SIGPROF", 0):
            return Lost(f"not done after {self._patience.cpu:g} s of CPU time")
        return Lost(_DIED, again=True)


def _first_message(work: Work, patience: Patience) -> bytes:
    return pickle.dumps((work, patience.cpu, patience.clock))


def _interpreter() -> list[str]:
    """This interpreter, with the options that change what it imports and how it decodes."""
    flags = sys.flags
    options = {
        "-I": flags.isolated,
        "-E": flags.ignore_environment,
        "-s": flags.no_user_site,
        "-S": flags.no_site,
        "-B": flags.dont_write_bytecode,
        "-Xutf8": flags.utf8_mode,
    }
    return [
        sys.executable,
        *(option for option, given in options.items() if given),
        *(f"-W{option}" for option in sys.warnoptions),
    ]


def _path_without(root: Path) -> list[str]:
    """``sys.path`` less the current folder and the root of the tree, from which nothing must be imported.

    The interpreter's own folders stay, wherever the user stands.
    """
    tree = [root]
    with suppress(OSError):  # it may have been deleted
        tree.append(Path.cwd())
    own = (*sysconfig.get_paths().values(), site.getusersitepackages())
    dropped = set(map(os.path.realpath, tree)) - set(map(os.path.realpath, own))
    entries = [entry for entry in sys.path if Path(entry).is_absolute()]
    return [entry for entry in entries if os.path.realpath(entry) not in dropped]
