"""How running ends in front of its end: a path, a function, or a pass of a loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamlint.interp.state.values import HeapV, Value


class Cut(Exception):
    """A budget ran out; the ops issued so far are still judged."""


class PathEnds(Exception):
    """The path cannot go on: an exception was raised, or the process exits."""


class Returned(Exception):
    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


class Jumped(Exception):
    """``break`` or ``continue``."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind


class Blocked(Exception):
    """A thread waits for a queue in which nothing is."""

    def __init__(self, queue: HeapV) -> None:
        super().__init__()
        self.queue = queue
