"""Effects of calls that compute a result: a part of the union in ``models/schema.py``."""

from __future__ import annotations

from streamlint.frozen import frozen


@frozen()
class Computes:
    """Device work on ``stream`` that reads parameters, and writes ``out``, or what it makes; gives that."""

    reads: tuple[str, ...]
    out: str
    stream: str
