"""``streamlint explain``: what a rule means, or how one finding goes wrong, in its own names."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamlint.api import request
from streamlint.cache.folder import default_folder
from streamlint.characters import plain
from streamlint.errors import UserError
from streamlint.files import absolute
from streamlint.finding import Confidence
from streamlint.frozen import frozen, replace
from streamlint.notebook import SUFFIX, cell_path, split_path
from streamlint.output.outcome import Format
from streamlint.output.places import in_notebooks, shown_from
from streamlint.output.style import Style, wants_colors
from streamlint.output.terminal import write
from streamlint.output.text import headline
from streamlint.run import check
from streamlint.settings.catalog import catalog, find_rule, sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from streamlint.files import SourceFiles
    from streamlint.finding import Finding
    from streamlint.output import Outcome
    from streamlint.pictures.story import Story

_PLACE: Final = re.compile(r"(?P<file>.+?)(?::cell (?P<cell>\d+))?:(?P<line>\d+)(?::\d+)?")
"""As findings are shown: ``loader.py:29:18``, ``train.ipynb:cell 3:5:8``."""
_WIDEST = 100


@frozen()
class Place:
    file: Path
    shown: str
    """The path as findings have it: of a notebook with the cell."""
    line: int


def main(argv: Sequence[str]) -> int:
    """Run ``streamlint explain``. Raises UserError where there is no such rule, and no finding there."""
    options = parser().parse_args(argv)
    style = Style(wants_colors(options.color, sys.stdout))
    match = _PLACE.fullmatch(options.what)
    if match is None:
        rule = find_rule(options.what, catalog())
        page = f"# {rule.code} {rule.name}\n\n{sentence(rule.summary)}\n\n{rule.doc.strip()}"
        text = "\n".join(_fitted(page.split("\n"), _width(110))).rstrip() + "\n"
    else:
        shown = match["file"] if match["cell"] is None else cell_path(match["file"], int(match["cell"]))
        outcome = _looked_at(Place(Path(match["file"]), shown, int(match["line"])))
        text = "\n".join(_told(finding, outcome.sources, style) for finding in outcome.findings)
    write(text, sys.stdout)
    return 0


def _looked_at(place: Place) -> Outcome:
    """The findings at a place, with their evidence; those of any rule and confidence."""
    if not place.file.is_file():
        raise UserError(f"{place.file} is not a file")
    asked = request((place.file,), select=("ALL",), min_confidence=Confidence.POSSIBLE)
    asked = replace(asked, cache=asked.config.cache_dir or default_folder())
    outcome = check.run(asked)
    shown = _placed(outcome)
    for error in shown.errors:
        raise UserError(f"{error.path}:{error.line}: {error.message}")
    place = _in_cell(place, shown.findings)
    if not _at(place, shown.findings):
        raise UserError(f"no finding at {place.shown}:{place.line}{_others(shown.findings)}")
    shown = _placed(check.with_evidence(asked, outcome))
    return replace(shown, findings=_at(place, shown.findings))


def _placed(outcome: Outcome) -> Outcome:
    return in_notebooks(shown_from(outcome, Path.cwd()), Format.FULL)


def _in_cell(place: Place, findings: Iterable[Finding]) -> Place:
    """Return ``train.ipynb:5`` as the cell that has a finding there. Raises UserError if several have."""
    if place.file.suffix != SUFFIX or split_path(place.shown)[1] is not None:
        return place
    file = absolute(place.file)
    here = (each.primary.path for each in findings if each.primary.line == place.line)
    named = sorted(
        {path for path in here if absolute(Path(split_path(path)[0])) == file},
        key=lambda path: split_path(path)[1] or 0,
    )
    if len(named) > 1:
        several = ", ".join(f"{each}:{place.line}" for each in named)
        raise UserError(f"several cells have a finding in line {place.line}; name one: {several}")
    return replace(place, shown=named[0]) if named else place


def _at(place: Place, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those that are reported there; if none is, those that have another place there."""
    whole = absolute(Path(place.shown))

    def here(path: str, line: int) -> bool:
        return line == place.line and absolute(Path(path)) == whole

    found = tuple(findings)
    reported = tuple(each for each in found if here(each.primary.path, each.primary.line))
    return reported or tuple(
        each for each in found if any(here(one.span.path, one.span.line) for one in each.elsewhere)
    )


def _others(findings: Sequence[Finding]) -> str:
    places = dict.fromkeys(f"{each.primary.path}:{each.primary.line} ({each.code})" for each in findings)
    return f"; there are {', '.join(places)}" if places else ", nor anywhere else in the file"


# ----------------------------------------------------------------------------- in words


def _told(finding: Finding, sources: SourceFiles, style: Style) -> str:
    from streamlint.pictures.build import scene_of
    from streamlint.pictures.story import story

    parts = [*_headline(finding, style)]
    if finding.evidence is not None:
        parts += _sections(story(scene_of(finding.evidence, sources), finding), style)
    else:  # a comment that suppresses nothing
        parts += _section("What would mend it", [finding.advice], style)
    return "\n".join(parts) + "\n"


def _sections(told: Story, style: Style) -> Iterator[str]:
    actors = [
        f"{each.letter}  {each.code}\n   {each.effect}; on {each.lane}, {each.place}" for each in told.actors
    ]
    yield from _section("What runs where", actors, style)
    yield from _section("What is wrong", told.wrong, style)
    steps = [f"{number}. {step}" for number, step in enumerate(told.steps, 1)]
    yield from _section(told.heading, steps, style)
    yield from _section("What would mend it", [told.remedy] if told.remedy else [], style)
    yield from _section("What was assumed", told.assumed, style)


def _section(title: str, texts: Sequence[str], style: Style) -> Iterator[str]:
    if not texts:
        return
    yield f"\n{style.strong(title)}"
    for text in texts:
        for line in text.split("\n"):
            yield from _wrapped(plain(line), _width(_WIDEST), "  ", "     ")


def _headline(finding: Finding, style: Style) -> Iterator[str]:
    before = f"{finding.code} [{finding.confidence.value}] "
    first, *rest = _wrapped(f"{before}{plain(finding.message)}", _width(_WIDEST), "", "   ")
    yield headline(replace(finding, message=first.removeprefix(before)), style)
    yield from map(style.strong, rest)


def _fitted(lines: Sequence[str], width: int) -> Iterator[str]:
    """A page in Markdown; where the terminal is narrower than its lines, its paragraphs are filled anew."""
    code = False
    paragraph: list[str] = []
    for line in [*lines, ""]:
        fence, alone = line.startswith("```"), line.startswith(("#", "|"))
        if paragraph and (fence or alone or not line or line.startswith("- ")):
            fits = all(len(each) <= width for each in paragraph)
            yield from paragraph if fits else _wrapped(" ".join(paragraph), width, "", "")
            paragraph = []
        if line and not (fence or alone or code):
            paragraph.append(line)
        else:
            yield line
        code = code != fence


def _wrapped(text: str, width: int, first: str, then: str) -> list[str]:
    lines = textwrap.wrap(
        text.replace("cell ", _UNBROKEN),  # a place in a notebook, ``race.ipynb:cell 5:3``
        width,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )
    return [line.replace(_UNBROKEN, "cell ") for line in lines]


_UNBROKEN = "cell\N{NO-BREAK SPACE}"


def _width(most: int) -> int:
    """What is written into a file is as wide as may be."""
    return min(shutil.get_terminal_size((most, 24)).columns, most)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="streamlint explain", description="Tell what a rule means, or how a finding goes wrong."
    )
    made.add_argument(
        "what",
        metavar="RULE|FILE:LINE",
        help="a code (SL101), a name (unordered-read), or the place of a finding (loader.py:29)",
    )
    made.add_argument("--color", choices=("auto", "always", "never"), default="auto")
    return made
