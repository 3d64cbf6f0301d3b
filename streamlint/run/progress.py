"""A line on a terminal that tells how far a run is: ``120 of 5601 files, 14 s``."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from types import TracebackType

PATIENCE = 1.0
"""Seconds after which the line is shown: a short run needs none."""
STEP = 0.5


class Progress:
    """Inside of ``with`` the line is kept up to date; afterwards it is gone.

    A thread writes it, so that the seconds go on while one file takes its time. Where ``stream`` is no
    terminal (a pipe, a log of CI) nothing is written.
    """

    def __init__(self, stream: TextIO | None, patience: float = PATIENCE, step: float = STEP) -> None:
        self._stream = stream if stream is not None and stream.isatty() else None
        self._patience = patience
        self._step = step
        self._counts = (0, 0)
        self._shown = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_showing, daemon=True)

    def __call__(self, done: int, files: int) -> None:
        self._counts = (done, files)

    def __enter__(self) -> Progress:
        if self._stream is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._stream is not None:
            self._thread.join()
            self._write("")

    def _keep_showing(self) -> None:
        start = time.monotonic()
        wait = self._patience
        while not self._over.wait(wait):
            done, files = self._counts
            if files:
                self._write(f"{done} of {files} files, {time.monotonic() - start:.0f} s")
            wait = self._step

    def _write(self, text: str) -> None:
        """Over what was there before, and the cursor at its end."""
        if self._stream is None or not (text or self._shown):
            return
        try:
            self._stream.write(f"\r{text.ljust(self._shown)}" if text else f"\r{' ' * self._shown}\r")
            self._stream.flush()
        except (OSError, ValueError):  # the terminal has gone
            self._stream = None
        self._shown = len(text)
