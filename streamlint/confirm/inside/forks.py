"""The processes of the runs: ``python -m streamlint.confirm.inside.forks MODULE...``.

This one imports the named modules, which must not touch the GPU, once; then it forks for the request
lines on standard input, because importing a framework takes longer than all the rest. To make a context
on the GPU, and to end it, takes longer than most runs, so a process may be kept for the next request.
Standard library only, as ``child``.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamlint.confirm.inside.child import BEGIN, Runs, failed, goes_on
from streamlint.confirm.inside.last_words import tail
from streamlint.confirm.inside.stacks import has_stacks, stuck_at
from streamlint.confirm.terms import CRASHES, Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

_POLL_S: Final = 0.005
_MOST_RUNS: Final = 200
"""Of a process that is kept: streams that nobody destroys come to share the queues of the hardware."""

_END: Final = {"status": "end"}


def serve(preload: list[str]) -> None:
    """Answer each request ``{"job": ..., "timeout_s": ..., "log": path, "kept": ...}`` with one line of JSON.

    The answer lists the results of the runs of the job, in order, up to the first after which the
    process could not go on. ``kept``: other requests may be answered by the same process.
    """
    for name in preload:
        with suppress(Exception):  # the program's own import will report it
            importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    forks = Forks()
    for line in sys.stdin:
        print(json.dumps(forks.answer(json.loads(line))), file=answers, flush=True)
    forks.close()


class Forks:
    """Forks for requests, and keeps at most one process for the next ones."""

    def __init__(self) -> None:
        self._kept: _Process | None = None

    def answer(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The results of a job; what its runs started is gone afterwards, unless the process is kept."""
        kept, self._kept = (self._kept, None) if request["kept"] else (None, self._kept)
        if kept is not None:
            answer = self._asked(kept, request)
            if answer is not None:
                return answer
        return self._asked(_started(request["log"]), request) or []

    def close(self) -> None:
        """End the process that is kept."""
        if self._kept is not None:
            self._kept.end(reaped=False)
            self._kept = None

    def _asked(self, process: _Process, request: Mapping[str, Any]) -> list[dict[str, Any]] | None:
        """``None`` if a process that was kept had ended before it was asked."""
        used, process.runs = process.runs > 0, process.runs + len(request["job"]["runs"])
        lines, status = process.ask(request)
        results = [line for line in lines if line not in (BEGIN, _END)]
        is_over = lines[-1:] == [_END]
        if is_over and request["kept"] and results and goes_on(results[-1]) and process.runs < _MOST_RUNS:
            self._kept = process
            return results
        process.end(reaped=status is not None)
        if used and not lines and status is not None:
            return None
        return results if is_over else [*results, _ended(process, request, status, len(results))]


@dataclass(slots=True)
class _Process:
    """A forked process, which leads a session of its own."""

    pid: int
    requests: int
    results: int
    log: Path
    runs: int = 0
    """So many it was asked for."""

    def ask(self, request: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int | None]:
        """What it has to say, and its wait status if it has ended; else it is done, or took too long."""
        with suppress(BrokenPipeError):
            _write(self.requests, request)
        data = b""
        timeout_s = float(request["timeout_s"])
        limit = time.monotonic() + timeout_s
        last = json.dumps(_END).encode() + b"\n"
        while True:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            with suppress(BlockingIOError):
                while chunk := os.read(self.results, 1 << 16):
                    data += chunk
                    limit = time.monotonic() + timeout_s
            if ended or data.endswith(last) or time.monotonic() > limit:
                lines = [json.loads(line) for line in data.splitlines() if line.endswith(b"}")]
                return lines, status if ended else None
            time.sleep(_POLL_S)

    def end(self, *, reaped: bool) -> None:
        """Nothing of it is left afterwards."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if not reaped:
            os.waitpid(self.pid, 0)
        os.close(self.requests)
        os.close(self.results)


def _started(log: str) -> _Process:
    requests, to_requests = os.pipe()
    from_results, results = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(to_requests)
        os.close(from_results)
        _run(requests, results, _log_of(log, os.getpid()))
    os.close(requests)
    os.close(results)
    os.set_blocking(from_results, False)
    return _Process(pid, to_requests, from_results, _log_of(log, pid))


def _log_of(log: str, pid: int) -> Path:
    return Path(f"{log}-{pid}")


def _run(requests: int, results: int, path: Path) -> None:
    """In the forked process; never returns."""
    gc.freeze()  # what the server has loaded is no garbage: to look at it would copy its pages
    os.setsid()
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    runs = Runs()
    try:
        with os.fdopen(requests, encoding="utf-8") as lines:
            for line in lines:
                _answer(runs, json.loads(line), results)
    except BaseException:
        with suppress(Exception):
            traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # the program may have closed or replaced it
                stream.flush()
        # Not sys.exit: threads and callbacks that the program left waiting must not keep it alive.
        os._exit(0)


def _answer(runs: Runs, request: Mapping[str, Any], results: int) -> None:
    # Where the program waits without end, the log tells the line.
    watch = partial(faulthandler.dump_traceback_later, 0.9 * request["timeout_s"], file=2)
    watch()
    for result in chain(runs.results(request["job"]), (_END,)):
        watch()
        _write(results, result)
    faulthandler.cancel_dump_traceback_later()


def _write(target: int, content: Mapping[str, Any]) -> None:
    data = json.dumps(content).encode() + b"\n"
    while data:
        data = data[os.write(target, data) :]


def _ended(process: _Process, request: Mapping[str, Any], status: int | None, done: int) -> dict[str, Any]:
    """The result of the run that the process did not get to the end of."""
    log = process.log.read_text("utf-8", errors="replace") if process.log.exists() else ""
    if status is None or (_crashed(status) and has_stacks(log)):
        # `faulthandler` reads the frames of threads that go on, which can end the process; the time was over.
        where, cause = stuck_at(log, request["job"]["runs"][done]["path"])
        return failed(f"the program did not end within {request['timeout_s']:g} s{where}", cause)
    cause = Cause.CRASH if _crashed(status) else Cause.UNABLE
    return failed(f"the program {_ending(status)}{tail(process.log)}", cause)


def _ending(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"


def _crashed(status: int) -> bool:
    return -os.waitstatus_to_exitcode(status) in CRASHES


if __name__ == "__main__":
    serve(sys.argv[1:])
