"""A stand-in for the analysis, to test what is around it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING

from streamlint import cli
from streamlint.finding import (
    Confidence,
    Finding,
    Related,
    Report,
    Severity,
    SourceError,
    Statistics,
)
from streamlint.run import engine
from streamlint.run.results import Settings
from streamlint.settings.catalog import CommentRule, Listed
from streamlint.source import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pytest

    from streamlint.run.warm import Warm

RULES = (
    CommentRule("SL101", "unordered-read", "a stream reads too early", "Docs of SL101.", Severity.ERROR),
    CommentRule("SL102", "unordered-write", "a stream writes too early", "Docs of SL102.", Severity.ERROR),
    CommentRule("SL901", "pageable-async-copy", "a copy blocks", "Docs of SL901.", Severity.ADVICE, False),
)

SOURCE = """\
import torch

copy = torch.cuda.Stream()
with torch.cuda.stream(copy):
    batch = host.to("cuda", non_blocking=True)


loss = model(batch)
print(loss)
"""


@dataclass
class FakeEngine:
    """Answers with what a test put in, and remembers what it was asked."""

    findings: list[Finding] = field(default_factory=list)
    errors: list[SourceError] = field(default_factory=list)
    statistics: Statistics = field(default_factory=Statistics)
    crash: BaseException | None = None
    root: Path | None = None
    files: tuple[Path, ...] = ()
    focus: tuple[Path, ...] | None = None
    overlay: Mapping[Path, bytes] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    cache: Path | None = None

    def analyze(
        self,
        root: Path,
        files: Sequence[Path],
        settings: Settings,
        focus: Sequence[Path] | None = None,
        overlay: Mapping[Path, bytes] | None = None,
        progress: Callable[[int, int], None] | None = None,
        cache: Path | None = None,
        *,
        warm: Warm | None = None,  # noqa: ARG002
    ) -> Report:
        self.cache = cache
        if self.crash is not None:
            raise self.crash
        if progress is not None:
            progress(1, len(files))
        self.root, self.files, self.settings = root, tuple(files), settings
        self.focus, self.overlay = None if focus is None else tuple(focus), overlay or {}
        return Report(tuple(self.findings), tuple(self.errors), len(files), 1, self.statistics)

    def names(self) -> list[str]:
        assert self.root is not None
        return [path.relative_to(self.root).as_posix() for path in self.files]

    def focus_names(self) -> list[str] | None:
        assert self.root is not None
        return None if self.focus is None else [path.relative_to(self.root).as_posix() for path in self.focus]


def install(patch: pytest.MonkeyPatch, findings: Sequence[Finding] = ()) -> FakeEngine:
    """Put the stand-in, and three known rules, where the command line looks for the real ones."""
    fake = FakeEngine(list(findings))
    patch.setattr(engine, "analyze", fake.analyze)
    rules = ModuleType("streamlint.rules")
    rules.__dict__.update(RULES=RULES)
    listed = tuple(Listed(rule.code, rule.name, rule.default) for rule in RULES)
    patch.setattr("streamlint.settings.catalog.LISTED", listed)
    patch.setitem(sys.modules, "streamlint.rules", rules)
    patch.setattr("streamlint.rules", rules, raising=False)
    return fake


def finding(
    code: str = "SL101",
    path: str = "train.py",
    place: tuple[int, int, int] = (8, 7, 19),
    confidence: Confidence = Confidence.LIKELY,
    related: tuple[Related, ...] | None = None,
) -> Finding:
    """Make a finding on ``SOURCE``; ``place`` is line, first column and end column."""
    line, col, end_col = place
    rule = next(rule for rule in RULES if rule.code == code)
    write = Related(Span(path, 5, 12, 5, 46), "written here on `copy`")
    return Finding(
        code=code,
        name=rule.name,
        message="`batch` is read on the current stream while `copy` may still be writing it",
        help="call `torch.cuda.current_stream().wait_stream(copy)` before the read",
        confidence=confidence,
        severity=rule.severity,
        primary=Span(path, line, col, line, end_col),
        label="read here on the current stream",
        function="train.main",
        related=(write,) if related is None else related,
        fingerprint=f"{code}:{path}:{line}",
    )


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Result:
    status = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return Result(status, captured.out, captured.err)
