"""Writes the pictures of the documentation: ``python -m tests.drawn``."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from streamlint import graph
from tests.test_guides import blocks

PICTURES = {
    Path("docs/picture.svg"): "examples/trainer/prefetch.py::Prefetcher.next",
    Path("docs/tutorial.svg"): "prefetch.py::PrefetchLoader.__iter__",
}
"""What is in each of them: an example, or the program of the page of that name."""


def draw(picture: Path, into: Path) -> int:
    """Draw one, from the folder of the project."""
    page = picture.with_suffix(".md")
    if not page.exists():
        return graph.main([PICTURES[picture], "-o", str(into)])
    into, project = into.absolute(), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        for name, code in blocks(page.name).items():
            Path(folder, name).write_text(f"# {name}\n{code}", encoding="utf-8")
        os.chdir(folder)  # a picture says where the program is, from here
        try:
            return graph.main([PICTURES[picture], "-o", str(into)])
        finally:
            os.chdir(project)


if __name__ == "__main__":
    for each in PICTURES:
        draw(each, each)
