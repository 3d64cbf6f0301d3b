"""Confirmations as one HTML file that needs nothing else: no network, no scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamlint.confirm.report import measured
from streamlint.confirm.report.timeline import timeline
from streamlint.confirm.reproduce.slicing import NothingToReplayError, slice_of
from streamlint.confirm.verdict import Verdict
from streamlint.files import SourceFiles
from streamlint.pictures import page as pages
from streamlint.pictures import svg
from streamlint.pictures.page import escaped, marked
from streamlint.pictures.story import sentence
from streamlint.witness import treatment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.confirm.plan.plans import Plan
    from streamlint.confirm.run.runner import Confirmation
    from streamlint.confirm.text.instrument import Place
    from streamlint.finding import Finding

_MEANING = {
    Verdict.CONFIRMED: "A wrong value, an error or a wait was witnessed.",
    Verdict.UNORDERED: "The later operation overtook the earlier one, yet the value was right this time.",
    Verdict.ORDERED: "One schedule did no harm. Others were not tried.",
    Verdict.NOT_REACHED: "The earlier operation was never issued.",
    Verdict.NOISY: "The program returns different values even when it is serialized.",
    Verdict.NOT_RUN: "There was nothing to compare.",
}


def page(confirmations: Sequence[Confirmation], findings: Sequence[Finding], delay_ms: float) -> str:
    """The report. ``delay_ms`` is how long a gate holds."""
    by_mark = {finding.fingerprint: finding for finding in findings}
    cards = [
        line
        for number, each in enumerate(confirmations, 1)
        for line in _card(number, each, by_mark.get(each.plan.fingerprint), delay_ms)
    ]
    body = [*_head(confirmations), *_table(confirmations), *cards, *_foot(confirmations)]
    return pages.document("streamlint confirm", body)


def _head(confirmations: Sequence[Confirmation]) -> Iterator[str]:
    yield "<header>"
    yield "<h1>streamlint confirm</h1>"
    yield "<p>What a GPU showed when the earlier operation of each finding was held back.</p>"
    yield '<p class="counts">'
    for verdict in Verdict:
        count = sum(c.decision.verdict is verdict for c in confirmations)
        if count:
            yield f'<span class="chip {_class(verdict)}">{count} {verdict.value}</span>'
    yield "</p>"
    environment: dict[str, str] = {}
    for confirmation in confirmations:
        environment |= confirmation.environment
    if environment:
        listed = ", ".join(f"{name} {version}" for name, version in environment.items())
        yield f'<p class="muted">{escaped(listed)}</p>'
    yield "</header>"


def _table(confirmations: Sequence[Confirmation]) -> Iterator[str]:
    yield '<div class="wide"><table class="confirmations">'
    titles = ("Verdict", "Rule", "Function", "Lines", "What was seen")
    yield f"<thead>{_row('th', titles)}</thead>"
    yield "<tbody>"
    for number, each in enumerate(confirmations, 1):
        plan = each.plan
        link = f'<a href="#c{number}">{_name(plan)}</a>'
        lines, seen = _places(plan.earlier, plan.later), escaped(_evidence(each))
        yield _row("td", (_chip(each), escaped(plan.code), link, lines, seen))
    yield "</tbody></table></div>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in cells)}</tr>"


def _card(number: int, each: Confirmation, finding: Finding | None, delay_ms: float) -> Iterator[str]:
    plan = each.plan
    code = f"{escaped(plan.code)} " if plan.code else ""
    yield f'<section id="c{number}">'
    yield f"<h2>{_chip(each)} {code}<code>{_name(plan)}</code></h2>"
    if finding is not None:
        sure = f'<span class="muted">({finding.confidence.value})</span>'
        yield f'<p class="message">{marked(finding.message)} {sure}</p>'
    meaning, reason = _MEANING[each.decision.verdict], sentence(each.decision.reason)
    yield f"<p>{escaped(meaning)} <b>{escaped(reason)}</b></p>"
    yield from _difference(each)
    yield from _timeline(each, finding, delay_ms)
    yield from _measured(each)
    yield from _source(plan, plan.earlier, plan.later)
    if finding is not None:
        yield f'<p class="help"><b>Help:</b> {marked(finding.advice)}</p>'
        yield f'<p class="muted">Fingerprint {escaped(finding.fingerprint)}</p>'
    yield "</section>"


_WRONG: Final = {
    "held back": "with the earlier operation held back",
    "gives memory back": "with the memory handed out again",
}


def _difference(each: Confirmation) -> Iterator[str]:
    wrong = each.decision.difference
    if wrong is None:
        return
    yield '<div class="values">'
    for label, value, style in (
        ("serialized", wrong.reference, "right"),
        (_WRONG[treatment(each.plan.witness)], wrong.gated, "wrong"),
    ):
        yield f'<div class="value {style}"><span>{label}</span><code>{escaped(value)}</code></div>'
    yield "</div>"
    if wrong.place:
        where = f"result{wrong.place}" if wrong.place.startswith("[") else wrong.place
        yield f'<p class="muted">The first place that differs: <code>{escaped(where)}</code></p>'


def _timeline(each: Confirmation, finding: Finding | None, delay_ms: float) -> Iterator[str]:
    if finding is None or treatment(each.plan.witness) != "held back":
        return
    try:
        piece = slice_of(finding)
    except NothingToReplayError:
        return  # an error, a wait of the host: there are no two operations to draw
    drawn = timeline(piece, SourceFiles(each.plan.root), gate=f"up to {delay_ms:g} ms")
    yield from pages.figure(svg.element(drawn), _caption(each.decision.verdict))


def _measured(each: Confirmation) -> Iterator[str]:
    """Beside the prediction: what the device says of a racing run."""
    spans = each.measured
    if not any(one.part == "earlier" and one.lane != "host" for one in spans):
        return
    order = (
        "<b>B</b> was over before <b>A</b> began."
        if measured.came_first(spans)
        else "In this run <b>B</b> was not over when <b>A</b> began."
    )
    caption = (
        "The same schedule once more, as CUPTI measured it: begin and end of the gate and of both "
        f"operations. {order} On the host a bar is the statement, which only queues its work."
    )
    yield from pages.figure(measured.drawn(spans), caption)
    yield from measured.table(spans)


def _caption(verdict: Verdict) -> str:
    story = (
        "The schedule that the gate forces, drawn from the analysis; time runs down, and has no scale. "
        "<b>B</b> does not wait for <b>A</b>: the red line joins the two operations that nothing orders."
    )
    if verdict in (Verdict.CONFIRMED, Verdict.UNORDERED):
        return story
    return f"{story} This is the prediction; the run did not show it."


def _source(plan: Plan, earlier: Place | None, later: Place | None) -> Iterator[str]:
    letters = {place.line: letter for place, letter in ((later, "B"), (earlier, "A")) if place is not None}
    lines = SourceFiles(plan.path.parent).lines(plan.path.name)
    yield from pages.listing(_path(plan), lines, letters)


def _foot(confirmations: Sequence[Confirmation]) -> Iterator[str]:
    yield "<footer>"
    yield (
        "<p>Only <b>confirmed</b> proves anything. A right value under one schedule does not show that "
        "nothing can go wrong. A delay is a schedule that the hardware may choose by itself.</p>"
    )
    if not confirmations:
        yield "<p>There was nothing to confirm.</p>"
    yield "</footer>"


# ----------------------------------------------------------------------------- pieces


def _class(verdict: Verdict) -> str:
    return verdict.name.lower().replace("_", "-")


def _chip(each: Confirmation) -> str:
    verdict = each.decision.verdict
    return f'<span class="chip {_class(verdict)}">{verdict.value}</span>'


def _path(plan: Plan) -> str:
    relative = plan.path.is_relative_to(plan.root)
    return (plan.path.relative_to(plan.root) if relative else plan.path).as_posix()


def _name(plan: Plan) -> str:
    return f"{escaped(plan.path.name)}::{escaped(plan.function)}"


def _places(earlier: Place | None, later: Place | None) -> str:
    """``17 and 18``: the earlier line and the later one."""
    return " and ".join(dict.fromkeys(str(place.line) for place in (earlier, later) if place is not None))


def _evidence(each: Confirmation) -> str:
    wrong = each.decision.difference
    if wrong is None:
        return sentence(each.decision.reason)
    return f"{sentence(each.decision.reason)} {wrong.gated} instead of {wrong.reference}."
