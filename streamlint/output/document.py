"""JSON that any reader takes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def written(document: Mapping[str, object] | Sequence[object]) -> str:
    """Write a document in ASCII.

    A byte of a file's name that is not UTF-8, and half of a pair in a string of the program, are no
    characters: strict readers refuse the whole document for one of them.
    """
    text = _SURROGATE.sub("\ufffd", json.dumps(document, ensure_ascii=False))
    return json.dumps(json.loads(text), indent=2) + "\n"
