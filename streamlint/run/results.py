"""What the analysis of a file is asked for, and what it gives; free of the analysis itself."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from streamlint.finding import Finding, SourceError, Statistics
from streamlint.frozen import frozen
from streamlint.parsing import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamlint.run.searches import Search
    from streamlint.trace import StreamKind


@frozen()
class Settings:
    default_stream: str = "legacy"
    max_file_bytes: int = MAX_BYTES
    jobs: int = 1
    """Processes, no more than cores and files; 0 is one for each core."""
    executor: str = ""
    """Where the work is done instead, as ``fleet`` understands it: ``dask://HOST:PORT``."""
    evidence: bool = True
    """Whether findings keep the trace of their path, which is large: `confirm` and `graph` use it."""
    fix_possible: bool = False
    """Whether fixes are worked out for findings that are only possible."""

    @property
    def default_kind(self) -> StreamKind:
        from streamlint.trace import StreamKind

        return StreamKind.PER_THREAD if self.default_stream == "per-thread" else StreamKind.LEGACY


@frozen()
class Part:
    """What was looked at of a module."""

    outline: bytes
    """All that is known of it without the code of its functions (``run.outlines``)."""
    bodies: frozenset[bytes]
    """The functions whose code was looked at."""


@frozen()
class Reads:
    """What was looked at to analyze a file: where all of it is as it was, so is what the file gives."""

    modules: frozenset[str] = frozenset()
    """Dotted names that were looked up, whether a file answers to them or none."""
    searches: Mapping[Search, tuple[str, ...]] = field(default_factory=dict)
    """Searches through the text of the whole tree, with the paths of the files that match."""
    parts: Mapping[str, Part] = field(default_factory=dict)
    """What was looked at of the modules, by their own names, of which that is not the whole text."""


@frozen()
class FileResult:
    """What one file gave."""

    findings: tuple[Finding, ...] = ()
    errors: tuple[SourceError, ...] = ()
    analyzed: bool = False
    statistics: Statistics = field(default_factory=Statistics)
    marked: bool = True
    """Whether its text may hold comments for us."""
    reads: Reads | None = None
    """None if another run may give something else: time or memory ran out, or the file cannot be read."""
