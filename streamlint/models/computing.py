"""Effects of calls that compute a result: a part of the union in ``models/schema.py``."""

from __future__ import annotations

from streamlint.frozen import frozen


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
