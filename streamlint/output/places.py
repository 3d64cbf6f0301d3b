"""Which folder the paths of an output start from."""

from __future__ import annotations

import os
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.files import SourceFiles
from streamlint.output.outcome import Format

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.finding import Finding
    from streamlint.output.outcome import Outcome
    from streamlint.source import Span


class Start(Enum):
    """Where paths are read from; the words are those of the command line."""

    HERE = "here"
    """The folder that the command is run in: what a person, a shell and an editor can open."""
    ROOT = "root"
    """The root of the project: the same wherever the command is run."""

    @classmethod
    def usual(cls, form: Format) -> Start:
        """Text is for people and editors; the other forms are stored, uploaded and compared."""
        return cls.HERE if form in (Format.FULL, Format.CONCISE) else cls.ROOT


def shown_from(outcome: Outcome, folder: Path) -> Outcome:
    """Return an outcome, whose paths start from the project's root, with paths that start from ``folder``.

    What does not lie below ``folder`` gets its whole path.
    """
    root = outcome.sources.root

    def path(name: str) -> str:
        whole = Path(os.path.normpath(root / name))
        return (whole.relative_to(folder) if whole.is_relative_to(folder) else whole).as_posix()

    if root == folder:
        return outcome
    return replace(
        outcome,
        findings=tuple(_moved(finding, path) for finding in outcome.findings),
        errors=tuple(replace(error, path=path(error.path)) for error in outcome.errors),
        statistics=replace(
            outcome.statistics,
            left_out=tuple(replace(left, path=path(left.path)) for left in outcome.statistics.left_out),
        ),
        sources=SourceFiles(
            folder, {path(name): content for name, content in outcome.sources.overlay.items()}
        ),
    )


def _moved(finding: Finding, path: Callable[[str], str]) -> Finding:
    def moved(span: Span) -> Span:
        return replace(span, path=path(span.path))

    return replace(
        finding,
        primary=moved(finding.primary),
        earlier=moved(finding.earlier) if finding.earlier is not None else None,
        related=tuple(replace(related, span=moved(related.span)) for related in finding.related),
    )
