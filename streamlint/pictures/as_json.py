"""Pictures as JSON: what is drawn, for tools that draw themselves."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from enum import Enum

    from streamlint.pictures.model import Picture


def render(pictures: Sequence[Picture]) -> str:
    """``{"version": 1, "pictures": [...]}``; operations are referred to by their number in the list."""
    document = {"version": 1, "pictures": [asdict(picture) for picture in pictures]}
    return json.dumps(document, indent=2, default=_value) + "\n"


def _value(one: Enum) -> object:
    return one.value
