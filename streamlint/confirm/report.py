"""Confirmations as text and as JSON; lines and columns count from 1."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from streamlint.confirm.verdict import Verdict
from streamlint.witness import describe

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from streamlint.confirm.instrument import Place
    from streamlint.confirm.plan import Plan
    from streamlint.confirm.runner import Confirmation


def plans_text(plans: Sequence[Plan]) -> str:
    return "\n".join(_plan_line(plan) for plan in plans)


def plans_json(plans: Sequence[Plan]) -> str:
    return json.dumps({"version": 1, "plans": [_plan(plan) for plan in plans]}, indent=2)


def text(confirmations: Sequence[Confirmation]) -> str:
    blocks = [_block(c) for c in confirmations]
    environment = next((c.environment for c in confirmations if c.environment), None)
    if environment:
        blocks.append(", ".join(f"{name} {version}" for name, version in environment.items()))
    blocks.append(_summary(confirmations))
    return "\n".join(blocks)


def as_json(confirmations: Sequence[Confirmation]) -> str:
    environment: dict[str, str] = {}
    for confirmation in confirmations:
        environment |= confirmation.environment
    counts = {v.value: sum(c.decision.verdict is v for c in confirmations) for v in Verdict}
    document = {
        "version": 1,
        "confirmations": [_confirmation(c) for c in confirmations],
        "environment": environment,
        "summary": counts,
    }
    return json.dumps(document, indent=2)


def _block(confirmation: Confirmation) -> str:
    decision = confirmation.decision
    lines = [f"{_plan_line(confirmation.plan)}: {decision.verdict.name}", f"    {decision.reason}"]
    if decision.difference is not None:
        d = decision.difference
        lines.append(f"    result{d.place}: {d.reference} serialized, {d.gated} otherwise")
    return "\n".join(lines)


def _summary(confirmations: Sequence[Confirmation]) -> str:
    counts = [(sum(c.decision.verdict is v for c in confirmations), v) for v in Verdict]
    return ", ".join(f"{count} {verdict.value}" for count, verdict in counts if count)


def _plan_line(plan: Plan) -> str:
    code = f"{plan.code} " if plan.code else ""
    parts = [] if plan.earlier is None else [f"line {plan.earlier.line} held back"]
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
        "earlier": _place(plan.earlier),
        "later": _place(plan.later),
    }


def _place(place: Place | None) -> dict[str, int] | None:
    if place is None:
        return None
    return {"line": place.line} | ({} if place.col is None else {"column": place.col + 1})


def _confirmation(confirmation: Confirmation) -> dict[str, Any]:
    decision = confirmation.decision
    difference = decision.difference
    return _plan(confirmation.plan) | {
        "verdict": decision.verdict.name,
        "reason": decision.reason,
        "difference": None
        if difference is None
        else {"place": difference.place, "reference": difference.reference, "gated": difference.gated},
    }
