"""Known findings, so that a project with many can start by looking only at new ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from streamlint.errors import UserError
from streamlint.files import UnreadableError
from streamlint.files import read as read_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from streamlint.finding import Finding

VERSION = 1
MAX_BYTES = 100_000_000


class BaselineError(UserError):
    """A baseline file that cannot be read."""


def read(path: Path) -> frozenset[str]:
    """Return the fingerprints of the known findings.

    Raises BaselineError, naming the file, if it is missing or is not a baseline.
    """
    try:
        document = json.loads(read_file(path, MAX_BYTES).decode("utf-8"))
    except UnreadableError as error:
        raise BaselineError(f"{path}: {error}") from error
    except RecursionError as error:
        raise BaselineError(f"{path}: not a baseline: nested too deeply") from error
    except ValueError as error:
        raise BaselineError(f"{path}: not a baseline: {error}") from error
    match document:
        case {"version": 1, "findings": [*entries]}:
            return frozenset(str(entry["fingerprint"]) for entry in entries if _is_entry(entry))
        case _:
            raise BaselineError(f"{path}: not a baseline of version {VERSION}")


def _is_entry(entry: object) -> bool:
    return isinstance(entry, dict) and "fingerprint" in entry


def dump(findings: Iterable[Finding]) -> str:
    """Return the baseline of some findings; code, path and message are there for the reader only."""
    entries = [
        {
            "fingerprint": finding.fingerprint,
            "code": finding.code,
            "path": finding.primary.path,
            "message": finding.message,
        }
        for finding in findings
    ]
    return json.dumps({"version": VERSION, "findings": entries}, indent=2) + "\n"
