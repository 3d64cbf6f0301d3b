"""Questions to the text of all files of a tree, without parsing any.

Each is answered for one file by its bytes alone. So an answer for the tree is the list of the files that
match, and where a few files have changed since, only these have to be asked again.
"""

from __future__ import annotations

import os
import re
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from streamlint.frozen import Enumeration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_File = TypeVar("_File")


class Kind(Enumeration):
    CALLS = "calls"
    """A function or class of this name is called: ``Loader(``."""
    ASSIGNS = "assigns"
    """An attribute of this name, that of a stream, is assigned on something: ``group.copy_stream = ...``."""
    STORES = "stores"
    """Something is given to an attribute of this name, or to one in quotes."""
    STORES_ANY = "stores any"
    """Something may be given to attributes or variables by computed names: ``setattr(x, y, 1)``."""
    REACHES = "reaches"
    """Names the module, and gets at its stream or event: ``loader.copy_stream``."""
    RECORDS = "records"
    """Gets at something of this name, and records events: ``table.consumed.record()``."""
    AWAITS = "awaits"
    """Gets at something of this name, and waits for events: ``loader.done.synchronize()``."""
    NAMES = "names"
    """Has all of some words, as a file has that imports several modules."""
    HAZARDS = "any hazard"
    """Has what is a hazard to a wait that is put in, such as a capture; asked is whether any file has."""


_AT_ALL = {Kind.RECORDS: Kind.RECORDS, Kind.AWAITS: Kind.REACHES, Kind.REACHES: Kind.REACHES}
"""What files of these kinds have whatever is looked for in them."""


class Search(NamedTuple):
    kind: Kind
    words: tuple[str, ...]

    @property
    def wider(self) -> Search | None:
        """What all files match that match this one, and not many others: asked once for many names."""
        at_all = _AT_ALL.get(self.kind) if self.words else None
        return None if at_all is None else Search(at_all, ())

    @property
    def ends_at_first(self) -> bool:
        """Whether the first file that matches, in the order of paths, is the whole answer."""
        return self.kind is Kind.HAZARDS

    def among(self, files: Iterable[_File], text: Callable[[_File], bytes | None]) -> list[_File]:
        """The files that match, of those in the order of their paths."""
        found = (each for each in files if self.matches(text(each)))
        return list(islice(found, 1) if self.ends_at_first else found)

    def matches(self, data: bytes | None) -> bool:
        """Whether a file matches; None: it cannot be read, and may be a hazard."""
        if data is None:
            return self.kind is Kind.HAZARDS
        match self.kind, self.words:
            case Kind.CALLS, (name,):
                text = name.encode("utf-8", "surrogatepass")
                return text + b"(" in data and text in called_in(data)
            case Kind.ASSIGNS, (attribute,):
                return _assigns(attribute, data)
            case Kind.STORES, (name,):
                return _stores(name, data)
            case (Kind.RECORDS | Kind.REACHES) as kind, ():
                return _words(kind).search(data) is not None
            case Kind.REACHES, (module, thing):
                return _reaches(module, thing, data)
            case Kind.RECORDS, (name,):
                return _gets_at(name) in data and _words(Kind.RECORDS).search(data) is not None
            case Kind.AWAITS, (name,):
                return _gets_at(name) in data and _words(Kind.AWAITS).search(data) is not None
            case Kind.NAMES, names:
                texts = [name.encode("utf-8", "surrogatepass") for name in names]
                return all(text in data for text in texts) and all(_word(one).search(data) for one in texts)
            case Kind.STORES_ANY, ():
                return _stores_any(data)
            case Kind.HAZARDS, ():
                from streamlint.fixes.hazards import has_hazard  # all tables

                return has_hazard(data)
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


def stores_any() -> Search:
    return Search(Kind.STORES_ANY, ())


def reaches(module: str, thing: str) -> Search:
    """``module`` is the last part of its dotted name."""
    return Search(Kind.REACHES, (module, thing))


def records(thing: str) -> Search:
    return Search(Kind.RECORDS, (thing,))


def awaits(thing: str) -> Search:
    return Search(Kind.AWAITS, (thing,))


def names(*words: str) -> Search:
    return Search(Kind.NAMES, tuple(sorted(words)))


def hazards() -> Search:
    return Search(Kind.HAZARDS, ())


def _gets_at(name: str) -> bytes:
    return b"." + name.encode("utf-8", "surrogatepass")


def _assigns(attribute: str, data: bytes) -> bool:
    if "stream" not in attribute or not attribute.isascii():
        return False
    text = b"." + attribute.encode()
    return text in data and re.search(re.escape(text) + rb"\s*=(?!=)", data) is not None


def _stores(name: str, data: bytes) -> bool:
    text = name.encode("utf-8", "surrogatepass")
    return text in data and _storing(text).search(data) is not None


def _stores_any(data: bytes) -> bool:
    may = any(part in data for part in _PARTS) or any(word.search(data) for word in _WORDS)
    return may and _STORES_ANY.search(data) is not None


_PARTS = (b"globals", b"locals", b"vars", b"setattr", b"delattr", b"__dict__", b"__setstate__", b"__new__")
_WORDS = (re.compile(rb"exec\b"), re.compile(rb"eval\b"))
"""What each text has that ``_STORES_ANY`` matches, and few others: to look for a plain word is quick."""
_STORES_ANY = re.compile(
    rb"""(?<![\w.])(?:builtins\.)?(?:exec|eval|globals|locals|vars)\s*\(|=\s*(?:exec|eval|globals|setattr)\b"""
    rb"""|(?:(?:set|del)attr|__(?:set|del)attr__)\s*\((?!\s*["']|[^()]*?,\s*["'][\w.]+["']\s*[,)])"""
    rb"""|\b(?:set|del)attr\b(?!\s*\()"""
    rb"""|__(?:dict|globals|setstate)__|\bf_(?:globals|locals)\b|(?<!super\(\))\.__new__\b"""
)


@cache
def _storing(name: bytes) -> re.Pattern[bytes]:
    """``x.side = ...``, ``x.side, y = ...``, ``del x.side``, ``setattr(x, "side", ...)``, ``f(side=...)``."""
    name = re.escape(name)
    targets = rb"\.%s\b\s*(?:[^\s\w=(.]?=(?!=)|:|[,)][^=\n]*=(?!=)|in\b)" % name
    others = rb"\bdel\b[^\n]*\.%s\b|[(,]\s*%s\s*=(?!=)|[\"'](?:[\w.]*\.)?%s[\"']" % (name, name, name)
    return re.compile(targets + b"|" + others)


@cache
def _word(name: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"(?<![\w\x80-\xff])%s(?![\w\x80-\xff])" % re.escape(name))


@cache
def _words(kind: Kind) -> re.Pattern[bytes]:
    """What records events, or orders streams at all."""
    from streamlint.models import vocabulary  # all tables

    match kind:
        case Kind.RECORDS:
            words = vocabulary.RECORDS
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
