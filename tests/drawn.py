"""Writes the picture of the documentation: ``python -m tests.drawn``."""

from __future__ import annotations

from pathlib import Path

from streamlint import graph

PICTURE = Path("docs/picture.svg")


def draw(into: Path) -> int:
    """Draw it, from the folder of the project."""
    return graph.main(["examples/trainer/prefetch.py::Prefetcher.next", "-o", str(into)])


if __name__ == "__main__":
    draw(PICTURE)
