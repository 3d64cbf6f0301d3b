"""The ``streamlint`` command, in forks of a process that has imported it and has done nothing else.

Each start of Python reads the analysis, which takes longer than most of what tests ask of the command. Where
they ask for what it does, and not for how it starts, ``Warm.command`` stands for ``python -m streamlint``: it
takes arguments, folder, environment and standard streams from who starts it, and ends as the command does.
Not so signals, limits, the hash seed and ``PYTHONPATH``: who tests those starts Python.
"""

from __future__ import annotations

import gc
import importlib
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from streamlint.__main__ import main as command
from streamlint.run import pool, worker

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

CLIENT = Path(__file__).with_name("warm_client.py")
MODULES = """
    streamlint.cli streamlint.run.check streamlint.run.memory streamlint.run.parallel streamlint.run.session
    streamlint.fixes.plans streamlint.lower.body streamlint.rules streamlint.output.sarif
    streamlint.confirm.command streamlint.server.language
""".split()
STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def asking(place: str) -> list[str]:
    """The command that asks for a fork, without its arguments."""
    return [sys.executable, "-I", "-S", str(CLIENT), place]


class Warm:
    """Who asks for forks as long as it is open."""

    def __init__(self) -> None:
        self.command = [sys.executable, "-m", "streamlint"]
        if not hasattr(os, "fork"):
            return
        self._folder = tempfile.TemporaryDirectory(prefix="warm-")
        place = Path(self._folder.name, "socket")
        self.command = asking(str(place))
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.warm_start", str(place)],
            cwd=CLIENT.parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._server.stdout is not None
        assert self._server.stdout.read(1), "the server did not start"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if hasattr(os, "fork"):
            self._server.kill()  # forks of this process may hold its input open
            self._server.communicate()
            self._folder.cleanup()


class Request(NamedTuple):
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    streams: list[int]


def serve(listener: socket.socket) -> Request | None:
    """Forks for each request. Returns it in the fork, and None when nobody asks any more."""
    running: dict[socket.socket, int] = {}
    ended, end = os.pipe()
    os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(end)
    while True:
        ready = select.select([sys.stdin.fileno(), ended, listener, *running], [], [])[0]
        if sys.stdin.fileno() in ready:
            return None
        for gone in running.keys() & set(ready):
            os.kill(running[gone], signal.SIGKILL)
        if ended in ready:
            os.read(ended, 1_000)
            for client, pid in list(running.items()):
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    del running[client]
                    with suppress(OSError), client:
                        client.sendall(b"%d" % os.waitstatus_to_exitcode(status))
        if listener in ready:
            client, _ = listener.accept()
            request = received(client)
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (*running, client, listener):
                    each.close()
                os.close(ended)
                os.close(end)
                return request
            running[client] = pid
            for number in request.streams:
                os.close(number)


def received(client: socket.socket) -> Request:
    size, streams, _, _ = socket.recv_fds(client, 8, 3)
    with client.makefile("rb") as file:
        text = file.read(int.from_bytes(size, "little"))
    arguments, folder, environment = marshal.loads(text)  # noqa: S302 from a test
    return Request(arguments, folder, environment, streams)


def become(request: Request) -> None:
    """Take the place of who asked."""
    for number, given in enumerate(request.streams):
        os.dup2(given, number)
        os.close(given)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    sys.argv = ["streamlint", *request.arguments]
    for number, (name, mode) in enumerate(STREAMS):
        stream = opened(number, mode, getattr(sys, name).errors)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def opened(number: int, mode: str, errors: str) -> IO[str]:
    """A standard stream as Python makes it at its start."""
    buffering = 1 if number == 2 or os.isatty(number) else -1
    return open(number, mode, buffering, sys.stdin.encoding, errors, closefd=False)


def main() -> int:
    for name in MODULES:
        with suppress(ModuleNotFoundError):  # an extra that is not installed
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    place = sys.argv[1]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen()
        sys.stdout.write("1")
        sys.stdout.flush()
        request = serve(listener)
    if request is None:
        return 0
    become(request)
    pool.__dict__["_interpreter"] = lambda: asking(place)  # its workers are forks, too
    if request.arguments[:1] == [worker.__file__]:
        del sys.argv[0]
        worker.main()
    status = command()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # to take apart all that is imported takes longer than most commands


if __name__ == "__main__":
    sys.exit(main())
