"""What was found out about a project, kept with it by whoever found it out."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Kept(Generic[K, V]):
    """The answers to one kind of question about a project: ``_WRITES: Kept[Span, Writes] = Kept()``.

    The module that asks makes one, and ``Project.kept`` has the answers, so a project knows nothing of
    what is asked about it.
    """
