"""What the server's process for the analysis does: a check, started anew for each question.

The analysis is in a process of its own, so that typing is never slow, what nobody waits for any more can be
ended, and memory that it took goes back with the process.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from streamlint.frozen import frozen, replace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from streamlint.finding import Finding, SourceError
    from streamlint.run import check
    from streamlint.run.first import Whole
    from streamlint.run.warm import Warm


@frozen()
class Question:
    """What to check: files and folders as they are saved, or texts as they are shown."""

    paths: tuple[Path, ...]
    texts: Mapping[Path, bytes]
    """What all open files hold."""
    wanted: tuple[Path, ...]
    """Those of the open files whose findings are asked for."""
    is_typed: bool = False
    """Whether nothing but these texts has changed since the question before."""
    last: Whole | None = None
    """If given, only what is found in the function that was edited since then is asked for."""


@frozen()
class Answer:
    """What was found; paths start at ``root``."""

    root: Path
    findings: tuple[Finding, ...] = ()
    errors: tuple[SourceError, ...] = ()
    problem: str = ""
    """What the user has to mend first: a wrong key in the configuration."""
    whole: Whole | None = None
    """What the one file that was asked for gave, if it could be read."""
    is_slow: bool = False
    """Whether it took so long that the edited function is to be looked at first the next time."""
    is_nothing: bool = False
    """Whether the edited function cannot be looked at by itself."""
    resident: int = 0
    """Bytes of memory that the process has by now."""


QUICK = 0.1
"""Seconds of work after which an answer comes late in an editor."""


@dataclass(slots=True)
class Analysis:
    """The work of the process (``run.worker.Work``)."""

    root: Path
    warm: Warm | None = field(default=None, init=False)

    def start(self) -> None:
        """Import what takes longest before anybody waits for it."""
        for name in ("api", "rules", "run.engine", "run.first"):
            import_module(f"streamlint.{name}")
        from streamlint.run.warm import Warm

        self.warm = Warm()

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
        request = replace(request, cache=cache, warm=self.warm)
        if self.warm is not None and not question.is_typed:
            self.warm.forget_disk()
        answer = _whole(request) if question.last is None else _first(request, question.last)
        return replace(answer, resident=resident())


def _whole(request: check.Request) -> Answer:
    from streamlint.run import check
    from streamlint.run.first import Whole

    begun = time.process_time()
    report, focus, _ = check.analyzed(request)
    seconds = time.process_time() - begun
    whole = None
    if (
        len(request.texts.wanted) == 1
        and not request.paths
        and not report.errors
        and request.warm is not None
    ):
        (path,) = request.texts.wanted
        whole = Whole(request.texts.overlay[path], report.findings, request.warm.ran.get(path, ()))
    outcome = check.outcome(request, report, focus, seconds, request.texts.overlay)
    return Answer(request.root, outcome.findings, outcome.errors, whole=whole, is_slow=seconds > QUICK)


def _first(request: check.Request, last: Whole) -> Answer:
    from streamlint.run import check
    from streamlint.run.first import first

    (path,) = request.texts.wanted
    report = first(request, path, last)
    if report is None:
        return Answer(request.root, is_nothing=True)
    outcome = check.outcome(request, report, (path,), 0.0, request.texts.overlay)
    return Answer(request.root, outcome.findings, outcome.errors)
