"""Python processes that an observed program starts: ``torchrun``, ``multiprocessing``, ``subprocess``.

A folder with a ``sitecustomize.py`` stands first on ``PYTHONPATH``, and the environment names the request.
Each process writes what it saw to a file of its own; the command puts them together.
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from streamlint.confirm.inside.hook import script_of, users_own

if TYPE_CHECKING:
    from streamlint.confirm.observe.observer import Observer

REQUEST: Final = "STREAMLINT_OBSERVE_REQUEST"
"""The environment variable that names the file with the request."""

LAUNCHER: Final = "streamlint.confirm.observe.child"

WHOLE: Final = ".whole"
"""How the names of results end that are complete."""

SITECUSTOMIZE: Final = """\
from streamlint.confirm.observe import children
children.install(__file__)
"""


def install(own_file: str) -> None:
    """Called by the ``sitecustomize.py`` at ``own_file``; chains to the user's own."""
    request = os.environ.get(REQUEST, "")
    if LAUNCHER not in sys.orig_argv and Path(request).is_file():  # else the run is over
        script = script_of(sys.orig_argv)
        if script is not None and script[1].endswith(".py"):
            # The interpreter is about to read the script by itself. Start over, with a reader of ours.
            options, path, arguments = script
            again = [sys.executable, *options, "-m", LAUNCHER, request, path, *arguments]
            os.execv(sys.executable, again)  # noqa: S606
        begin(json.loads(Path(request).read_text("utf-8")))
    users_own(own_file)


def begin(request: dict[str, Any]) -> Observer:
    """Observe this process from now on; what was seen is written when it ends."""
    from streamlint.confirm.observe.observer import Observer

    observer = Observer(Path(request["root"]))
    results = Path(request["results"])

    def save() -> None:
        # A process that forked may have left a child with what it had seen itself.
        if not observer.recorder.stopped:
            seen, part = pickle.dumps(observer.take()), results / f"{os.getpid()}.part"
            with suppress(OSError):  # it outlived the run
                part.write_bytes(seen)
                part.rename(part.with_suffix(WHOLE))  # it may be killed while it writes

    exit_at_once = os._exit

    def leave(status: int) -> NoReturn:
        save()
        exit_at_once(status)

    os._exit = leave
    observer.install()
    # Registered first, so that it runs last: what the program does at exit is seen too. The program's
    # own threads have ended by then.
    atexit.register(save)
    return observer
