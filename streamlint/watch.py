"""``check --watch``: once more each time a file has changed, until Ctrl-C."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Final

from streamlint.errors import UserError
from streamlint.notebook import SUFFIX
from streamlint.output.terminal import complain, write
from streamlint.settings.config import OWN_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_CLEAR: Final = "\033[H\033[2J\033[3J"
_STEP: Final = 200
"""Milliseconds until the first run, when the watch stands: what changes during a run is seen after it."""
_ENDED: Final = 128
"""Statuses from here on tell of a signal."""


def watch(once: Callable[[], int], places: Iterable[Path], output: Path | None) -> int:
    """Call ``once``, and again each time something in ``places`` has changed; ``output`` is what it writes.

    Returns the status of a call that a signal ended. Raises UserError without watchfiles.
    """
    folders = sorted({place if place.is_dir() else place.parent for place in map(Path.absolute, places)})
    with _changes(folders, None if output is None else output.absolute()) as changes:
        while True:
            _next(changes)
            status = _shown(once)
            if status > _ENDED:
                return status
            complain(f"watching {', '.join(map(str, folders))}; Ctrl-C ends it")


def _next(changes: Queue[Exception | None]) -> None:
    """Wait for a change; those that came in the meantime are one with it."""
    found = [changes.get()]
    while not changes.empty():
        found.append(changes.get())
    for each in found:
        if each is not None:
            raise UserError(f"cannot watch: {each}") from each


@contextmanager
def _changes(folders: Sequence[Path], output: Path | None) -> Iterator[Queue[Exception | None]]:
    """A queue with an item when the watch stands, and one for each change: None, or what ended the watch.

    A thread watches, so that signals reach this one.
    """
    try:
        import watchfiles
    except ModuleNotFoundError as error:
        raise UserError("--watch needs watchfiles: install streamlint with its extra `watch`") from error
    usual = watchfiles.DefaultFilter()
    queue: Queue[Exception | None] = Queue()
    over = threading.Event()

    def matters(change: watchfiles.Change, name: str) -> bool:
        path = Path(name)
        return path != output and _matters(path) and usual(change, name)

    def listen() -> None:
        try:
            steps = watchfiles.watch(
                *folders,
                watch_filter=matters,
                stop_event=over,
                rust_timeout=_STEP,
                yield_on_timeout=True,
                raise_interrupt=False,
            )
            for number, changed in enumerate(steps):
                if changed or not number:
                    queue.put(None)
        except Exception as error:  # what the system says, such as that it watches too much already
            queue.put(error)

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield queue
    finally:
        over.set()


def _matters(path: Path) -> bool:
    return path.suffix in (".py", SUFFIX) or path.name in ("pyproject.toml", OWN_FILE, ".gitignore")


def _shown(once: Callable[[], int]) -> int:
    if sys.stdout is not None and sys.stdout.isatty():
        write(_CLEAR, sys.stdout)
    try:
        return once()
    except UserError as error:  # a configuration that is being edited
        complain(f"error: {error}")
        return 0
