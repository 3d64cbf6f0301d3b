"""Known findings, so that a project with many can start by looking only at new ones."""

from __future__ import annotations

import json
from dataclasses import field
from typing import TYPE_CHECKING

from streamlint.errors import UserError, place
from streamlint.files import UnreadableError
from streamlint.files import read as read_file
from streamlint.frozen import frozen
from streamlint.parsing import UnparsableError, json_line, json_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from streamlint.finding import Finding

VERSION = 1
MAX_BYTES = 50_000_000
"""Of 200,000 findings."""


class BaselineError(UserError):
    """A baseline file that cannot be read."""


@frozen()
class Baseline:
    """The entries of a baseline, by their fingerprint."""

    entries: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    def __contains__(self, fingerprint: str) -> bool:
        return fingerprint in self.entries

    def unmatched(self, fingerprints: Iterable[str]) -> tuple[str, ...]:
        """Return the entries that are none of ``fingerprints``."""
        found = set(fingerprints)
        return tuple(each for each in self.entries if each not in found)

    def without(self, fingerprints: Iterable[str]) -> str:
        """Return the text of the baseline without some of its entries; the others are as they were."""
        dropped = set(fingerprints)
        return _text(entry for fingerprint, entry in self.entries.items() if fingerprint not in dropped)


def read(path: Path) -> Baseline:
    """Return the known findings.

    Raises BaselineError, naming the file and the place in it, if it is missing or is not a baseline.
    """
    try:
        content = read_file(path, MAX_BYTES)
        document = json_of(content)
    except UnreadableError as error:
        raise BaselineError(f"{path}: {error}") from error
    except UnparsableError as error:
        raise BaselineError(f"{place(path, error.line or None)}: not a baseline: {error}") from error
    match document:
        case {"version": 1, "findings": [*entries]}:
            known: dict[str, Mapping[str, object]] = {}
            for number, entry in enumerate(entries):
                match entry:
                    case {"fingerprint": str(fingerprint)}:
                        known[fingerprint] = entry
                    case _:
                        where = place(path, json_line(content, "findings", number))
                        raise BaselineError(f"{where}: entry {number + 1} of its findings has no fingerprint")
            return Baseline(known)
        case _:
            where = place(path, json_line(content, "version"))
            raise BaselineError(f"{where}: not a baseline of version {VERSION}")


def dump(findings: Iterable[Finding]) -> str:
    """Return the baseline of some findings; path and code tell which runs can miss one."""
    return _text(
        {
            "fingerprint": finding.fingerprint,
            "code": finding.code,
            "path": finding.primary.path,
            "message": finding.message,
        }
        for finding in findings
    )


def _text(entries: Iterable[Mapping[str, object]]) -> str:
    return json.dumps({"version": VERSION, "findings": list(entries)}, indent=2) + "\n"
