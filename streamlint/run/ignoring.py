"""``--add-ignore``: comments for all that is found, also for what was hidden behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.errors import UserError
from streamlint.files import UnreadableError
from streamlint.frozen import frozen
from streamlint.output.terminal import save
from streamlint.run import check
from streamlint.settings.catalog import INVALID_SUPPRESSION, UNUSED_SUPPRESSION, vocabulary
from streamlint.settings.ignores import checked, with_comments

if TYPE_CHECKING:
    from streamlint.finding import Finding
    from streamlint.output.outcome import Outcome

MOST_ROUNDS = 20
"""One finding may hide another, which is shown when the first has its comment."""
_OF_COMMENTS = (UNUSED_SUPPRESSION.code, INVALID_SUPPRESSION.code)


@frozen()
class Ignored:
    """What came of it."""

    findings: int
    files: int
    outcome: Outcome
    """What is found now."""


def run(request: check.Request, outcome: Outcome, reason: str) -> Ignored:
    """Write comments until nothing is left that can have one.

    Raises UserError before anything is written if a file cannot have them.
    """
    reason = checked(reason)
    count, files = 0, set[str]()
    for _ in range(MOST_ROUNDS):
        by_path: dict[str, list[Finding]] = {}
        for finding in outcome.findings:
            if finding.code not in _OF_COMMENTS:
                by_path.setdefault(finding.primary.path, []).append(finding)
        if not by_path or outcome.stop is not None:
            break
        texts = {path: _written(outcome, path, found, reason) for path, found in by_path.items()}
        for path, written in texts.items():
            save(outcome.sources.root / path, written)
        files |= by_path.keys()
        count += sum(map(len, by_path.values()))
        outcome = check.run(request)
    return Ignored(count, len(files), outcome)


def _written(outcome: Outcome, path: str, findings: list[Finding], reason: str) -> bytes:
    try:
        return with_comments(outcome.sources.root / path, findings, reason, vocabulary(outcome.rules))
    except UnreadableError as error:
        raise UserError(f"{path}: {error}") from error
