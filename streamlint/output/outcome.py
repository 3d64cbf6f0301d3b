"""What a run has to tell, before it takes a form."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.files import SourceFiles
    from streamlint.finding import Finding, SourceError, Statistics
    from streamlint.settings.catalog import RuleInfo


class Format(Enum):
    """The forms of output; their names are those of the command line."""

    FULL = "full"
    CONCISE = "concise"
    JSON = "json"
    SARIF = "sarif"
    HTML = "html"
    GITHUB = "github"
    GITLAB = "gitlab"
    JUNIT = "junit"


@frozen()
class Stop:
    """A run that a signal ended early."""

    signal: str
    """Its name, as systems and SARIF have it: ``SIGINT``."""
    number: int
    done: int
    """Files that were done with."""
    files: int

    @property
    def message(self) -> str:
        return f"stopped by {self.signal} after {self.done} of {self.files} files: there may be more to find"


@frozen()
class Outcome:
    """The findings to show, in order, and what surrounds them."""

    findings: tuple[Finding, ...]
    errors: tuple[SourceError, ...]
    files: int
    """Files the user asked about."""
    analyzed: int
    """Files among them that touch GPU streams."""
    seconds: float
    sources: SourceFiles
    rules: Sequence[RuleInfo]
    statistics: Statistics
    known: int = 0
    """Findings hidden because the baseline knows them."""
    stale: tuple[str, ...] = ()
    """Fingerprints of the baseline that no finding has any more, of the files and rules of this run."""
    unchanged: int = 0
    """Findings hidden because none of their places lies in a changed line."""
    stop: Stop | None = None
    """Why this is not all, if it is not."""
