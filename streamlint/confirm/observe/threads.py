"""What holds for one thread is entered in each thread of the program."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


def follow(context: Callable[[], AbstractContextManager[object]]) -> None:
    """Run each thread that is started from now on in a context of its own."""
    start = threading.Thread.start

    @functools.wraps(start)
    def traced(thread: threading.Thread) -> None:
        run = thread.run

        def inside() -> None:
            with context():
                run()

        thread.run = inside  # type: ignore[method-assign]
        start(thread)

    setattr(threading.Thread, "start", traced)  # noqa: B010 a type checker knows that methods stay
