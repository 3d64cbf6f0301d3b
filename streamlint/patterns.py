"""``.gitignore`` patterns, as git reads them, matched in a time that no pattern can blow up.

Patterns come from the tree that is checked. Turned into regular expressions, ``a*a*a*a*a*b`` makes Python's
matcher try every way to share a name out among the stars. Here a pattern is a row of items, and of several
runs (a ``*`` in a name, a ``**`` among folders) only the last one is ever tried at another length: what comes
before it has matched as early as it can, and matching later would leave less for the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_PATTERNS: Final = 10_000
"""More in one place are an error: each is tried on each file."""
_CLASSES: Final = {
    "alnum": str.isalnum,
    "alpha": str.isalpha,
    "digit": str.isdigit,
    "lower": str.islower,
    "space": str.isspace,
    "upper": str.isupper,
}

_One_contra = TypeVar("_One_contra", contravariant=True)


class PatternError(ValueError):
    """A pattern that git would not understand."""


class _Item(Protocol[_One_contra]):
    def matches(self, one: _One_contra) -> bool: ...


_Part = TypeVar("_Part")


def _match(items: Sequence[_Item[_Part] | None], parts: Sequence[_Part]) -> bool:
    """Whether the items match the parts one by one; None is a run of any length."""
    at = part = 0
    last, resumed = -1, 0  # the last run, and the first part that is not in it
    while part < len(parts):
        item = items[at] if at < len(items) else _NOTHING
        if item is None:
            last, resumed = at, part
            at += 1
        elif item.matches(parts[part]):
            at, part = at + 1, part + 1
        elif last < 0:
            return False
        else:
            resumed += 1
            at, part = last + 1, resumed
    return all(item is None for item in items[at:])


@frozen()
class _Nothing:
    def matches(self, _one: object) -> bool:
        return False


@frozen()
class _Any:
    def matches(self, _one: object) -> bool:
        return True


_NOTHING, _ANY = _Nothing(), _Any()


@frozen()
class _Literal:
    """A character, or a name."""

    text: str

    def matches(self, one: str) -> bool:
        return one == self.text


@frozen()
class _Set:
    """``[a-z_]``, ``[!a]``."""

    ranges: tuple[tuple[str, str], ...]
    classes: tuple[str, ...]
    negated: bool

    def matches(self, one: str) -> bool:
        inside = any(first <= one <= last for first, last in self.ranges)
        return (inside or any(_CLASSES[name](one) for name in self.classes)) != self.negated


@frozen()
class _Name:
    """A part of a path with wildcards."""

    items: tuple[_Item[str] | None, ...]

    def matches(self, one: str) -> bool:
        return _match(self.items, one)


@frozen()
class _Pattern:
    items: tuple[_Item[str] | None, ...]
    """The parts of a path; None is ``**``."""
    folders_only: bool
    includes: bool
    """``!pattern``: what an earlier one excludes is there all the same."""

    def matches(self, parts: Sequence[str], *, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        if len(self.items) == 2 and self.items[0] is None and self.items[1] is not None:
            # `*.py`, in any folder, which most patterns are: the rest of the path is whatever it is.
            return self.items[1].matches(parts[-1])
        return _match(self.items, parts)


@frozen()
class Patterns:
    """The patterns of one file; of those that match a path the last one decides."""

    _patterns: tuple[_Pattern, ...]

    @staticmethod
    def of(lines: Iterable[str], *, lenient: bool = False) -> Patterns:
        """Read patterns, one a line.

        Raises PatternError on too many, and on one that git would not understand, unless ``lenient``: git
        passes over it.
        """
        patterns: list[_Pattern] = []
        for line in lines:
            try:
                pattern = _parse(line)
            except PatternError:
                if not lenient:
                    raise
                continue
            if pattern is not None:
                patterns.append(pattern)
            if len(patterns) > MOST_PATTERNS:
                raise PatternError(f"there are more than {MOST_PATTERNS} of them")
        return Patterns(tuple(reversed(patterns)))

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def verdict(self, path: str, *, is_folder: bool = False) -> bool | None:
        """Return True if ignored, False if included again, None if not mentioned.

        ``path`` is relative to the folder of the patterns, with ``/``. What is in an ignored folder is
        ignored.
        """
        if not self._patterns:
            return None
        parts = path.split("/")
        for count in range(1, len(parts)):
            if self._decide(parts[:count], is_folder=True):
                return True
        return self._decide(parts, is_folder=is_folder)

    def cover(self, path: str, *, is_folder: bool = False) -> bool:
        return self.verdict(path, is_folder=is_folder) is True

    def _decide(self, parts: Sequence[str], *, is_folder: bool) -> bool | None:
        for pattern in self._patterns:
            if pattern.matches(parts, is_folder=is_folder):
                return not pattern.includes
        return None


def _parse(line: str) -> _Pattern | None:
    text = _without_end(line)
    if not text or text.startswith("#"):
        return None
    includes = text.startswith("!")
    text = text.removeprefix("!")
    if not text:
        raise PatternError(f"`{line}` names nothing")
    folders_only = text.endswith("/")
    text = text.removesuffix("/")
    if not text:
        return None  # a lone `/`
    names = text.removeprefix("/").split("/")
    items = [None if name == "**" else _name(name) for name in names]
    if "/" not in text:
        items.insert(0, None)  # `*.py` is in any folder
    if len(items) > 1 and items[-1] is None:
        items.append(_ANY)  # `build/**` is what is in it, and not itself
    return _Pattern(tuple(items), folders_only, includes)


def _without_end(line: str) -> str:
    """Spaces at the end do not count, unless there is a backslash before them."""
    text = line.rstrip("\r\n")
    bare = text.rstrip(" ")
    escaped = (len(bare) - len(bare.rstrip("\\"))) % 2 == 1
    return text[: len(bare) + 1] if escaped else bare


def _name(text: str) -> _Item[str]:
    if not any(char in text for char in "*?[\\"):
        return _Literal(text)
    items: list[_Item[str] | None] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "*":
            items += [None] if items[-1:] != [None] else []
        elif char == "?":
            items.append(_ANY)
        elif char == "[":
            item, at = _set(text, at)
            items.append(item)
        elif char == "\\":
            if at == len(text):
                raise PatternError(f"`{text}` ends in a backslash")
            items.append(_Literal(text[at]))
            at += 1
        else:
            items.append(_Literal(char))
    return _Name(tuple(items))


def _set(text: str, at: int) -> tuple[_Set, int]:
    """What stands in brackets, and where the text goes on; ``at`` is behind the opening one."""
    negated = text[at : at + 1] in ("!", "^")
    start = at = at + negated
    ranges: list[tuple[str, str]] = []
    classes: list[str] = []
    while at < len(text) and (text[at] != "]" or at == start):
        if text.startswith("[:", at):
            name, closing, _ = text[at + 2 : at + 10].partition(":]")
            if not closing or name not in _CLASSES:
                raise PatternError(f"`{text}` holds a class of characters that is not known")
            classes.append(name)
            at += len(name) + 4
            continue
        first, at = _one(text, at)
        last = first
        if text[at : at + 1] == "-" and text[at + 1 : at + 2] not in ("]", ""):
            last, at = _one(text, at + 1)
        ranges.append((first, last))
    if at >= len(text):
        raise PatternError(f"`{text}` has no closing bracket")
    return _Set(tuple(ranges), tuple(classes), negated), at + 1


def _one(text: str, at: int) -> tuple[str, int]:
    at += text[at] == "\\"
    if at >= len(text):
        raise PatternError(f"`{text}` has no closing bracket")
    return text[at], at + 1
