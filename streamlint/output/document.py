"""JSON that any reader takes."""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def written(document: Mapping[str, object] | Sequence[object]) -> str:
    """Write a document in ASCII.

    A byte of a file's name that is not UTF-8, and half of a pair in a string of the program, are no
    characters: strict readers refuse the whole document for one of them.
    """
    text = json.dumps(document, ensure_ascii=False)
    if _SURROGATE.search(text):
        document = json.loads(_SURROGATE.sub("\ufffd", text))
    return _indented(document, "\n") + "\n"


def _indented(value: object, line: str) -> str:
    """As ``json.dumps(value, indent=2)``, which is not compiled and takes twice as long.

    ``line`` begins a line.
    """
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    deeper = line + "  "
    between = "," + deeper
    if value and isinstance(value, dict):
        pairs = [
            encode_basestring_ascii(key) + ": " + _indented(inner, deeper) for key, inner in value.items()
        ]
        return "{" + deeper + between.join(pairs) + line + "}"
    if value and isinstance(value, list | tuple):
        return "[" + deeper + between.join([_indented(inner, deeper) for inner in value]) + line + "]"
    return int.__repr__(value) if type(value) is int else json.dumps(value)
