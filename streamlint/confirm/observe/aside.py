"""Threads whose driver calls another tracer tells of: PyTorch's operators, functions of cuda-python.

One call of a library is several of the driver's. Who traces the library knows what they are for; the
driver's own tracer leaves them out.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Aside:
    """How deep each thread is in such calls."""

    def __init__(self) -> None:
        self.depth: dict[int, int] = {}

    @contextmanager
    def told(self) -> Iterator[None]:
        """What this thread asks of the driver in this block is told of elsewhere."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def enter(self) -> None:
        thread = threading.get_ident()
        self.depth[thread] = self.depth.get(thread, 0) + 1

    def leave(self) -> None:
        thread = threading.get_ident()
        if self.depth[thread] == 1:
            del self.depth[thread]
        else:
            self.depth[thread] -= 1
