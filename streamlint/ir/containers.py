"""What Python's own containers and queues call it to put something into them."""

from __future__ import annotations

PUTS = frozenset({"append", "appendleft", "add", "put", "put_nowait"})
"""The argument becomes an element."""
FILLS = PUTS | {"insert", "extend", "extendleft", "update", "setdefault"}
"""The last argument does, or what is in it."""
TAKES = frozenset({"remove", "discard"})
"""The argument is an element no longer."""
