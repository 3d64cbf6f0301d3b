"""What a run has to tell, before it takes a form."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

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
    GITHUB = "github"


@dataclass(frozen=True, slots=True)
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
