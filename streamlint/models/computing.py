"""Effects of calls that compute: parts of the union in ``models/schema.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import frozen

if TYPE_CHECKING:
    from streamlint.models.objects import Makes


@frozen()
class Computes:
    """Device work on ``stream`` that reads parameters, and writes ``out``, or what it makes; gives that."""

    reads: tuple[str, ...]
    out: str
    stream: str
    like: str = ""
    """A parameter that is not read, of whose library the result is, and the stream where none is given."""
    also: tuple[str, ...] = ()
    """Further parameters that are written like ``out``; the call then gives a tuple, ``out`` first."""
    owner: str = ""
    """A parameter that keeps the stream: the host waits where it is not given."""


@frozen()
class Launches:
    """A kernel written in Python, with its arguments in the lists ``args``; its body shows what it does."""

    kernel: str
    args: tuple[str, ...]
    stream: str = "stream"
    kept_with: str = ""
    """A parameter with which the call launches nothing, and gives what ``makes`` says instead ..."""
    makes: Makes | None = None
    """... an object whose method launches it."""
