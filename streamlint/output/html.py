"""The ``html`` form: a page with a picture of each finding, and how it goes wrong."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from streamlint.finding import Confidence
from streamlint.output.text import counted
from streamlint.pictures import page, svg
from streamlint.pictures.build import picture, scene_of
from streamlint.pictures.story import story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.finding import Finding
    from streamlint.output.outcome import Outcome
    from streamlint.pictures.build import Scene


MOST_PICTURES = 200
"""Findings of a report that have a picture: each of them is as much work as its trace is long."""


def render(outcome: Outcome) -> str:
    """Return the page. Findings have a picture if they have their evidence (``run.check.with_evidence``)."""
    body = [
        *_head(outcome),
        *(_table(outcome) if outcome.findings else ()),
        *_sections(outcome),
        *_foot(outcome),
    ]
    return page.document("streamlint", body)


def _sections(outcome: Outcome) -> Iterator[str]:
    last: Scene | None = None
    for number, finding in enumerate(outcome.findings, 1):
        scene: Scene | None = None
        if finding.evidence is not None and number <= MOST_PICTURES:
            last = scene = scene_of(finding.evidence, outcome.sources, last)
        yield from _section(number, finding, outcome, scene)


def _head(outcome: Outcome) -> Iterator[str]:
    yield "<header><h1>streamlint</h1>"
    levels = Counter(finding.confidence for finding in outcome.findings)
    chips = [
        f'<span class="chip {level.value}">{levels[level]} {level.value}</span>'
        for level in reversed(Confidence)
        if levels[level]
    ]
    found = counted(len(outcome.findings), "finding") if outcome.findings else "No findings"
    files = counted(outcome.files, "file")
    yield f"<p>{found} in {files}, {outcome.analyzed} with GPU streams.</p>"
    yield f'<p class="counts">{" ".join(chips)}</p>'
    if len(outcome.findings) > MOST_PICTURES:
        others = "<code>streamlint explain FILE:LINE</code> tells the others"
        yield f"<p>The first {MOST_PICTURES} have a picture; {others}.</p>"
    yield "</header>"


def _table(outcome: Outcome) -> Iterator[str]:
    titles = "".join(f"<th>{title}</th>" for title in ("Place", "Rule", "Confidence", "Finding"))
    yield f'<div class="wide"><table><thead><tr>{titles}</tr></thead><tbody>'
    for number, finding in enumerate(outcome.findings, 1):
        place = f"{finding.primary.path}:{finding.primary.line}"
        yield (
            f'<tr><td><a href="#f{number}">{page.escaped(place)}</a></td>'
            f"<td>{finding.code}</td><td>{finding.confidence.value}</td><td>{page.marked(finding.message)}</td></tr>"
        )
    yield "</tbody></table></div>"


def _section(number: int, finding: Finding, outcome: Outcome, scene: Scene | None) -> Iterator[str]:
    span = finding.primary
    chip = f'<span class="chip {finding.confidence.value}">{finding.confidence.value}</span>'
    name = page.escaped(f"{span.path}:{span.line}")
    yield f'<section id="f{number}"><h2>{chip} {finding.code} {finding.name} <code>{name}</code></h2>'
    yield f'<p class="message">{page.marked(finding.message)}</p>'
    letters: dict[int, str] = {}
    if scene is not None:
        yield from page.figure(svg.element(picture(scene, finding.message, "")))
        told = story(scene, finding)
        yield from page.steps(told)
        letters = scene.letters_in(span.path)
    yield from page.listing(span.path, outcome.sources.lines(span.path), letters or {span.line: "*"})
    if finding.advice:
        yield f'<p class="help"><b>Help:</b> {page.marked(finding.advice)}</p>'
    yield "</section>"


def _foot(outcome: Outcome) -> Iterator[str]:
    if outcome.errors or outcome.stop is not None:
        yield "<section><h2>Not analyzed</h2><ul>"
        for error in outcome.errors:
            place = f"{error.path}:{error.line}" if error.line else error.path
            yield f"<li><code>{page.escaped(place)}</code>: {page.escaped(error.message)}</li>"
        if outcome.stop is not None:
            yield f"<li>{page.escaped(outcome.stop.message)}</li>"
        yield "</ul></section>"
