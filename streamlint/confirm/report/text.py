"""Confirmations as text and as JSON; lines and columns count from 1."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from streamlint.confirm.inside.last_words import printable
from streamlint.confirm.verdict import SAYS_MOST, Verdict
from streamlint.output.json import fields
from streamlint.witness import describe, treatment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from streamlint.confirm.plan.plans import Plan
    from streamlint.confirm.run.runner import Confirmation
    from streamlint.confirm.text.instrument import Place
    from streamlint.confirm.verdict import Decision
    from streamlint.finding import Finding


def plans_text(plans: Sequence[Plan]) -> str:
    return "\n".join(_plan_line(plan) for plan in plans)


def plans_json(plans: Sequence[Plan]) -> str:
    return json.dumps({"version": 1, "plans": [_plan(plan) for plan in plans]}, indent=2)


def text(confirmations: Sequence[Confirmation]) -> str:
    """A table, the software that took part, and the counts."""
    rows = [("verdict", "code", "function", "lines", "evidence")]
    rows += [_row(c) for c in confirmations]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]).rstrip()
        for row in rows
    ]
    environment = next((c.environment for c in confirmations if c.environment), None)
    if environment:
        lines.append(", ".join(f"{name} {version}" for name, version in environment.items()))
    lines.append(_summary(confirmations))
    return "\n".join(printable(line) for line in lines)


def as_json(confirmations: Sequence[Confirmation], findings: Sequence[Finding] = ()) -> str:
    """``findings`` come as ``check`` gives them, each with what the runs showed of it as ``confirm``."""
    environment: dict[str, str] = {}
    for confirmation in confirmations:
        environment |= confirmation.environment
    counts = {v.value: sum(c.decision.verdict is v for c in confirmations) for v in Verdict}
    document = {
        "version": 1,
        "findings": [fields(one) | {"confirm": _merged(one, confirmations)} for one in findings],
        "confirmations": [_confirmation(c) for c in confirmations],
        "environment": environment,
        "summary": counts,
    }
    return json.dumps(document, indent=2)


def _merged(finding: Finding, confirmations: Sequence[Confirmation]) -> dict[str, Any] | None:
    """The verdict that says most, where several functions reach the place; ``None``: nothing was run."""
    own = [c for c in confirmations if c.plan.fingerprint == finding.fingerprint]
    if not own:
        return None
    best = min(own, key=lambda c: SAYS_MOST.index(c.decision.verdict))
    return {"witness": describe(best.plan.witness), **_decision(best.decision)}


def _row(confirmation: Confirmation) -> tuple[str, str, str, str, str]:
    plan, decision = confirmation.plan, confirmation.decision
    evidence = decision.reason
    if decision.difference is not None:
        d = decision.difference
        right = "in order" if decision.by == "order" else "when serialized"
        evidence += f": {d.place or 'result'} is {d.gated}, {d.reference} {right}"
    held = "" if plan.earlier is None else f"{plan.earlier.line} {treatment(plan.witness)}"
    watched = "" if plan.later is None else f"{plan.later.line} watched"
    name = f"{_relative(plan.path, plan.root)}::{plan.function}"
    lines = ", ".join(part for part in (held, watched) if part)
    by = f" (by {decision.by})" if decision.by else ""
    return f"{decision.verdict.name}{by}", plan.code, name, lines, evidence


def _summary(confirmations: Sequence[Confirmation]) -> str:
    counts = [(sum(c.decision.verdict is v for c in confirmations), v) for v in Verdict]
    return ", ".join(f"{count} {verdict.value}" for count, verdict in counts if count)


def _plan_line(plan: Plan) -> str:
    code = f"{plan.code} " if plan.code else ""
    parts = [] if plan.earlier is None else [f"line {plan.earlier.line} {treatment(plan.witness)}"]
    parts += [] if plan.later is None else [f"line {plan.later.line} watched"]
    name = f"{_relative(plan.path, plan.root)}::{plan.function}"
    return f"{name}: {code}{', '.join(parts)} ({describe(plan.witness)})"


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def _plan(plan: Plan) -> dict[str, Any]:
    return {
        "path": _relative(plan.path, plan.root),
        "function": plan.function,
        "code": plan.code,
        "fingerprint": plan.fingerprint,
        "witness": describe(plan.witness),
        "earlier": _earlier(plan),
        "later": _place(plan.later),
    }


def _earlier(plan: Plan) -> dict[str, Any] | None:
    """With its file where that is another one."""
    place = _place(plan.earlier)
    if place is None or plan.earlier_path in (None, plan.path):
        return place
    assert plan.earlier_path is not None
    return {"path": _relative(plan.earlier_path, plan.root), **place}


def _place(place: Place | None) -> dict[str, int] | None:
    if place is None:
        return None
    return {"line": place.line} | ({} if place.col is None else {"column": place.col + 1})


def _confirmation(confirmation: Confirmation) -> dict[str, Any]:
    return _plan(confirmation.plan) | _decision(confirmation.decision)


def _decision(decision: Decision) -> dict[str, Any]:
    difference = decision.difference
    return {
        "verdict": decision.verdict.name,
        "by": decision.by or None,
        "reason": decision.reason,
        "difference": None
        if difference is None
        else {"place": difference.place, "reference": difference.reference, "gated": difference.gated},
    }
