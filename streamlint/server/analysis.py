"""What the server's process for the analysis does: a check, started anew for each question.

The analysis is in a process of its own, so that typing is never slow, what nobody waits for any more can be
ended, and memory that it took goes back with the process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from streamlint.finding import Finding, SourceError


@dataclass(frozen=True, slots=True)
class Question:
    """What to check: files and folders as they are saved, or texts as they are shown."""

    paths: tuple[Path, ...]
    texts: Mapping[Path, bytes]
    """What all open files hold."""
    wanted: tuple[Path, ...]
    """Those of the open files whose findings are asked for."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found; paths start at ``root``."""

    root: Path
    findings: tuple[Finding, ...] = ()
    errors: tuple[SourceError, ...] = ()
    problem: str = ""
    """What the user has to mend first: a wrong key in the configuration."""
    resident: int = 0
    """Bytes of memory that the process has by now."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The work of the process (``run.worker.Work``)."""

    root: Path

    def start(self) -> None:
        """Import what takes longest before anybody waits for it."""
        for name in ("api", "rules", "run.engine"):
            import_module(f"streamlint.{name}")

    def do(self, question: Question) -> Answer:
        from streamlint import api
        from streamlint.cache.folder import default_folder
        from streamlint.errors import UserError
        from streamlint.interp.state.budgets import resident
        from streamlint.run import check

        texts = check.Texts(question.texts, question.wanted)
        try:
            request = api.request(question.paths, texts=texts, jobs=1)
        except UserError as error:
            return Answer(self.root, problem=str(error), resident=resident())
        # What is typed changes all the time; a workspace is much like it was when it was saved last.
        cache = default_folder() if question.paths else None
        outcome = check.run(replace(request, cache=cache))
        findings = tuple(replace(finding, evidence=None) for finding in outcome.findings)
        return Answer(request.root, findings, outcome.errors, resident=resident())
