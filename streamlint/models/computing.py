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
