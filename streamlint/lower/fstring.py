"""The values inside an f-string."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.lower.text import Segment


def values_of(segment: Segment, node: ast.JoinedStr) -> Iterator[ast.expr]:
    """The values, also those of format specifications (``f"{x:{width}}"``), in order."""
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            yield part.value
            if isinstance(part.format_spec, ast.JoinedStr):
                yield from values_of(segment, part.format_spec)
