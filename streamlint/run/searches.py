"""Questions to the text of all files of a tree, without parsing any.

Each is answered for one file by its bytes alone. So an answer for the tree is the list of the files that
match, and where a few files have changed since, only these have to be asked again.
"""

from __future__ import annotations

import os
import re
from enum import Enum
from functools import cache
from typing import NamedTuple


class Kind(Enum):
    CALLS = "calls"
    """A function or class of this name is called: ``Loader(``."""
    ASSIGNS = "assigns"
    """An attribute of this name, that of a stream, is assigned on something: ``group.copy_stream = ...``."""
    STORES = "stores"
    """Something is given to a field of this name, or to a name in the body of a class."""
    REACHES = "reaches"
    """Names the module, and gets at its stream or event: ``loader.copy_stream``."""
    RECORDS = "records"
    """Gets at something of this name, and records events: ``table.consumed.record()``."""
    CAPTURES = "captures"
    """Has a word that begins, ends or launches a capture: ``with torch.cuda.graph(g):``."""
    NAMES = "names"
    """Has a word anywhere."""


class Search(NamedTuple):
    kind: Kind
    words: tuple[str, ...]

    def matches(self, data: bytes) -> bool:
        match self.kind, self.words:
            case Kind.CALLS, (name,):
                text = name.encode("utf-8", "surrogatepass")
                return text + b"(" in data and text in called_in(data)
            case Kind.ASSIGNS, (attribute,):
                return _assigns(attribute, data)
            case Kind.STORES, (name,):
                return _stores(name, data)
            case Kind.REACHES, (module, thing):
                return _reaches(module, thing, data)
            case Kind.RECORDS, (name,):
                return _gets_at(name) in data and _words(Kind.RECORDS).search(data) is not None
            case Kind.CAPTURES, ():
                return _words(Kind.CAPTURES).search(data) is not None
            case Kind.NAMES, (name,):
                text = name.encode("utf-8", "surrogatepass")
                return text in data and re.search(rb"\b%s\b" % re.escape(text), data) is not None
            case _:
                raise ValueError(self)


def calls(name: str) -> Search:
    return Search(Kind.CALLS, (name,))


_CALLED = re.compile(rb"(?<![0-9A-Z_a-z\x80-\xff])([A-Z_a-z\x80-\xff][0-9A-Z_a-z\x80-\xff]*)\(")
"""A name with what calls it; it is looked for where a word begins: in a number of 100,000 digits, or in data
written as text, a search that begins anywhere reads the rest of the word from each character again."""


def called_in(data: bytes) -> set[bytes]:
    """The names that a text calls, or defines: every search for a call is answered by them."""
    return set(_CALLED.findall(data))


def assigns(attribute: str) -> Search:
    return Search(Kind.ASSIGNS, (attribute,))


def stores(name: str) -> Search:
    return Search(Kind.STORES, (name,))


def names(name: str) -> Search:
    return Search(Kind.NAMES, (name,))


def reaches(module: str, thing: str) -> Search:
    """``module`` is the last part of its dotted name."""
    return Search(Kind.REACHES, (module, thing))


def records(thing: str) -> Search:
    return Search(Kind.RECORDS, (thing,))


def captures() -> Search:
    return Search(Kind.CAPTURES, ())


def _gets_at(name: str) -> bytes:
    return b"." + name.encode("utf-8", "surrogatepass")


def _assigns(attribute: str, data: bytes) -> bool:
    if "stream" not in attribute or not attribute.isascii():
        return False
    text = b"." + attribute.encode()
    return text in data and re.search(re.escape(text) + rb"\s*=(?!=)", data) is not None


def _stores(name: str, data: bytes) -> bool:
    text = name.encode("utf-8", "surrogatepass")
    return _storing(text).search(data) is not None


_SPECIAL = rb"__(?:dict|new|reduce\w*|[gs]etstate|[gs]etattr|delattr|getattribute)__|\bvars\("
"""What may store any field."""


@cache
def _storing(name: bytes) -> re.Pattern[bytes]:
    """``x.side = ...``, ``x.side, y = ...``, ``side: Stream = ...``, ``def side``, ``setattr``."""
    name = re.escape(name)
    targets = rb"\.%s\b\s*(?:[^\s\w=(.]?=(?!=)|:|[,)][^=\n]*=(?!=)|in\b)" % name
    return re.compile(
        rb"%s|^[ \t]+(?:def[ \t]+%s\b|%s\s*[:=](?!=))|[\"'](?:[\w.]*\.)?%s[\"']|%s"
        % (targets, name, name, name, _SPECIAL),
        re.MULTILINE,
    )


@cache
def _words(kind: Kind) -> re.Pattern[bytes]:
    """What records events, captures, or orders streams at all."""
    from streamlint.models import vocabulary  # all tables

    match kind:
        case Kind.RECORDS:
            words = vocabulary.RECORDS
        case Kind.CAPTURES:
            words = vocabulary.CAPTURES
        case _:
            words = vocabulary.ORDERS | vocabulary.RECORDS
    return re.compile("|".join(sorted(words)).encode())


def _reaches(module: str, thing: str, data: bytes) -> bool:
    stem = os.fsencode(module)  # a file's name may be any bytes
    name = thing.encode("utf-8", "surrogatepass")
    if _gets_at(thing) not in data or stem not in data or not _words(Kind.REACHES).search(data):
        return False
    name = re.escape(name)
    if re.search(rb"self\.%s\s*=|def %s\(" % (name, name), data):
        # A class there has its own.
        data = re.sub(rb"\bself\.%s\b" % name, b"", data)
    return re.search(rb"\.%s\b(?!\()" % name, data) is not None
