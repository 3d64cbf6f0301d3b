"""Findings about events that nothing records, and for which no path waits: text shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Confidence, Finding, Related
from streamlint.rules.sl103_wait_before_record import RULE
from streamlint.trace import SyncEvent, Wait

if TYPE_CHECKING:
    from streamlint.source import Span


def finding(made: Span, function: str, put_into: str, waited_for: Span) -> Finding:
    """Of an event that a function makes and puts into an attribute, where code waits for what that holds."""
    return Finding(
        code=RULE.code,
        name=RULE.name,
        message=f"nothing records what is put into `{put_into}` here: waits for it order nothing",
        help="record it behind the work that must be waited for",
        confidence=Confidence.LIKELY,
        severity=RULE.severity,
        primary=made,
        label="recorded nowhere",
        function=function,
        related=(Related(waited_for, "waits for nothing"),),
    )


def waited_for(finding: Finding) -> Span | None:
    """Where the event was made for which a path waits in vain, if a finding tells that."""
    evidence = finding.evidence if finding.code == RULE.code else None
    wait = evidence.trace.ops[evidence.later] if evidence is not None else None
    if evidence is None or not isinstance(wait, (Wait, SyncEvent)):
        return None
    return evidence.trace.events[wait.event].span
