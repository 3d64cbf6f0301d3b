"""Names in messages are expressions of the source; what it has no expression for is told in words.

A path unrolls what the source writes once: of ``for stream in self.streams`` it knows ``self.streams[1]``,
and of ``self.stream`` in a method ``solver.stream`` in the function that made the solver. A reader looks for
what stands in backticks, so that these are "element 1 of `self.streams`" and "the `stream` of `solver`".
"""

from __future__ import annotations

import ast
import re
from string import digits
from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.parsing import expression_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streamlint.finding import Finding

_PART = "a part of"
_QUOTED = re.compile(r"`([^`]+)`")


class Source:
    """The texts of the files that a message is about."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = [_plain(text) for text in texts]

    def has(self, name: str) -> bool:
        """Whether the source writes something like that, in whatever quotes."""
        whole = re.compile(rf"(?<!\w){re.escape(_plain(name))}(?!\w)")
        return any(whole.search(text) for text in self._texts)


def _plain(text: str) -> str:
    return text.replace('"', "'")


def of_source(finding: Finding, text_of: Callable[[str], str | None]) -> Finding:
    """The finding with what its message, help and notes call by no expression of the source told in words."""
    places = (finding.primary, finding.earlier, *(related.span for related in finding.related))
    paths = dict.fromkeys(place.path for place in places if place is not None)
    source = Source(text for path in paths if (text := text_of(path)) is not None)
    return replace(
        finding,
        message=_told(finding.message, source),
        label=_told(finding.label, source),
        help=_told(finding.help, source, code=True),
        related=tuple(
            replace(related, message=_told(related.message, source)) for related in finding.related
        ),
    )


def _told(text: str, source: Source, *, code: bool = False) -> str:
    """``code``: the text has calls that somebody should write, too."""

    def words(quoted: re.Match[str]) -> str:
        name = quoted[1]
        if source.has(name):
            return quoted[0]
        try:
            e = expression_of(name)
        except SyntaxError:
            return quoted[0]
        if code and isinstance(e, ast.Call):
            return quoted[0]
        described = _described(e, source) or quoted[0]
        # "the result of `allocate`", and "element 1 of what `pop` gives"
        is_result = text[: quoted.start()].endswith("the result of ")
        return described.removeprefix("what ").removesuffix(" gives") if is_result else described

    return _QUOTED.sub(words, text)


def _described(e: ast.expr, source: Source) -> str:
    """An expression in words, by the parts of it that the source has; nothing if it has none."""
    text = ast.unparse(e)
    if source.has(text):
        return f"`{text}`"
    match e:
        case ast.Subscript(value=whole, slice=ast.Constant(value=int() as place)):
            return _of(f"element {place} of", whole, source)
        case ast.Subscript(value=whole):
            described = _of("an element of", whole, source)
            return described.removeprefix("an element of ") if _PART in described else described
        case ast.Attribute(value=whole, attr=name):
            # model.parameters["w"], of which the source has only model.state_dict()
            return _of(f"the `{name}` of" if source.has(name) else _PART, whole, source)
        case ast.Call(func=ast.Attribute(attr=name)) if source.has(name):
            return f"what `{name}` gives"
        case ast.Call(func=func):
            return _described(func, source)
        case ast.Name(id=name) if source.has(kind := name.rstrip(digits)):
            # Policy0, an object that no variable holds where the message is.
            return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} `{kind}`"
        case _:
            return ""


def _of(part: str, whole: ast.expr, source: Source) -> str:
    described = _described(whole, source)
    return f"{part} {described}" if described else ""
