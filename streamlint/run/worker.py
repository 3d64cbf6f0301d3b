"""The program of a worker process: ``python .../run/worker.py PACKAGE FOLDER...``, started by ``pool``.

It is started by its path, whatever the platform and version. ``python -c`` and ``python -m``, which
``multiprocessing`` uses, put the current folder first on ``sys.path``: where a program to be checked has a
``json.py`` there, that would be imported and run. Here the folder of this file comes first; before anything
is imported it is replaced by the folders that are given, none of which is the tree.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Any, BinaryIO, Protocol

    class Work(Protocol):
        """What the process is for; it is sent as the first message."""

        def start(self) -> None: ...

        def do(self, question: Any, /) -> object: ...  # noqa: ANN401  (whatever it is asked)


def main() -> None:
    package, *sys.path[:] = sys.argv[1:]
    import os
    import signal

    # Messages go where print() would: whatever is printed goes to standard error.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one decides
    _load(package)
    _serve(sys.stdin.buffer, answers)


def _load(package: str) -> None:
    """Imports this package from where the process that started this one has it.

    That folder may be the tree's own, for who works on streamlint: it is not on the path.
    """
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(
        "streamlint", f"{package}/__init__.py", submodule_search_locations=[package]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules["streamlint"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers None when ready, and then each question (a path, for ``check``) with what it gave."""
    import faulthandler
    import os
    import pickle
    import threading
    from queue import SimpleQueue

    work, cpu, clock = pickle.load(requests)  # noqa: S301  (from the process that started this one)
    work.start()
    questions: SimpleQueue[object] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests, questions), daemon=True).start()
    answer = None
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        while True:
            try:
                pickle.dump(answer, answers)
                answers.flush()
            except OSError:  # nobody is left to read it
                os._exit(1)
            question = questions.get()
            # Whoever waits for the answer ends this process when the time is over. If he is gone, and no
            # other thread comes to run because of one long call into C, this does where no signal did.
            faulthandler.dump_traceback_later(2 * clock, exit=True, file=nowhere)
            _limit(cpu)
            _end_with_asker(requests, wanted=True)
            answer = work.do(question)
            _end_with_asker(requests, wanted=False)
            _limit(0)
            faulthandler.cancel_dump_traceback_later()


def _limit(seconds: float) -> None:
    """From now on so much CPU time is left; 0 takes the limit away. SIGPROF then ends the process.

    The system counts it and nothing here has to run for that, so it holds inside of a call into C as well.
    """
    import signal

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _end_with_asker(requests: BinaryIO, *, wanted: bool) -> None:
    """Whether the end of whoever asks is to end this process too, whatever it is at.

    Nothing is sent while a question is at work: all that can come is the end of the pipe. Linux then sends
    SIGIO, which ends a process in which a call into C (``re.match("(a+)+$", "a" * 60 + "b")``) lets no
    thread of Python run. Elsewhere SIGIO ends nothing.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return
    import os
    import select
    import signal

    pipe = requests.fileno()
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(pipe, fcntl.F_GETFL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, flags | os.O_ASYNC if wanted else flags & ~os.O_ASYNC)
    ended = select.poll()
    ended.register(pipe, 0)
    if ended.poll(0):  # before the signal was asked for
        os._exit(0)


def _listen(requests: BinaryIO, questions: SimpleQueue[object]) -> None:
    """Takes requests. They end when the process that sends them does, and then this one ends too."""
    import os
    import pickle

    try:
        while True:
            questions.put(pickle.load(requests))  # noqa: S301
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
