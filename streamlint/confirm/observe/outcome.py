"""What was observed, as `check` would report it: with the configuration, comments and fingerprints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Report, Seen
from streamlint.frozen import replace
from streamlint.judging.merging import merge
from streamlint.run import check

if TYPE_CHECKING:
    from pathlib import Path

    from streamlint.confirm.observe.observer import Observed
    from streamlint.finding import Finding
    from streamlint.output import Outcome


def outcome_of(
    request: check.Request, observed: Observed, seconds: float, *, predict: bool = True
) -> Outcome:
    """What is reported. ``predict``: each finding says whether static analysis has it too."""
    from streamlint.run.results import Settings
    from streamlint.run.session import Session

    places = [span for f in observed.findings for span in (f.primary, f.earlier) if span is not None]
    files = tuple(sorted({request.root / span.path for span in places if span.path}))
    there = tuple(path for path in files if path.is_file())
    session = Session(request.root, there, Settings(), {})
    findings = merge((f for f in observed.findings if f.primary.path), session.statement)
    if predict:
        findings = _marked(request, findings, there)
    report = Report(findings, (), files=len(there), analyzed=len(there))
    # Without files in focus no comment is called unused: other runs may need it.
    return check.outcome(request, report, (), seconds)


def _marked(
    request: check.Request, findings: tuple[Finding, ...], files: tuple[Path, ...]
) -> tuple[Finding, ...]:
    """Each finding with the word whether static analysis predicts it too."""
    from streamlint.run.engine import Settings, analyze

    settings = Settings(default_stream=request.config.default_stream)
    predicted = {finding.fingerprint for finding in analyze(request.root, files, settings).findings}
    return tuple(
        replace(finding, seen=Seen.BOTH if finding.fingerprint in predicted else Seen.OBSERVED)
        for finding in findings
    )
