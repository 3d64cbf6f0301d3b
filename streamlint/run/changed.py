"""The lines that differ from a revision, asked of git: ``--diff-base origin/main``."""

from __future__ import annotations

import os
import re
import subprocess
from bisect import bisect_left
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

from streamlint import notebook
from streamlint.errors import UserError
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from streamlint.finding import Finding
    from streamlint.source import Span

_OPTIONS = ("-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-c", f"core.hooksPath={os.devnull}")
_ALONE = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
"""Nothing is fetched, by a command that the repository names, and nothing is written."""
_DIFF = (
    *("--unified=0", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--no-prefix"),
    "--ignore-submodules=all",  # each would be asked by a process with options of its own
)
_FILTER = re.compile(rb"(filter\..*)\.[a-z]+", re.DOTALL)
PATIENCE = 120
"""Seconds that git may take."""
_HUNK = re.compile(rb"@@ -\S+ \+(\d+)(?:,(\d+))? @@")
MOST_HUNKS = 200_000
"""Stretches of changed lines that are kept in all; of files for which there is no room all lines count."""


@frozen()
class Changed:
    """For each file that differs, by its path from the root, its changed lines in their order; None: all."""

    lines: Mapping[str, Sequence[range] | None]

    def touches(self, finding: Finding) -> bool:
        """Tell whether one of the places of a finding lies in a changed line."""
        places = (finding.primary, finding.earlier, *(related.span for related in finding.elsewhere))
        return any(place is not None and self._covers(place) for place in places)

    def _covers(self, place: Span) -> bool:
        if place.path not in self.lines:
            return False
        lines = self.lines[place.path]
        if lines is None or place.path.endswith(notebook.SUFFIX):  # places there are lines of the cells
            return True
        following = bisect_left(lines, place.line, key=lambda stretch: stretch.stop - 1)
        return following < len(lines) and lines[following].start <= place.end_line


def changed_since(revision: str, root: Path) -> Changed:
    """Compare the files below ``root`` with where the history left that of ``revision`` (the merge base).

    What is not committed counts, and so do files that git does not know yet. Where only lines were
    deleted, the lines beside the gap count: the statement that ordered them may be what is missing.
    The repository may be anybody's: no command that it names is run, and filters of its files (those of
    nbstripout, say) are left out. Raises UserError if git is missing, fails, or does not know the revision.
    """
    if revision.startswith("-"):
        raise UserError(f"`{revision}` is not a revision")
    base = _git(root, "merge-base", "HEAD", revision).decode().strip()
    diff = (*_DIFF, "--relative", base, "--", ".")
    # In a file, and read row by row: a text of 100 MB may have changed as well.
    with TemporaryFile() as different:
        _git(root, "diff", *diff, options=_without_filters(root), into=different)
        different.seek(0)
        changed = _files(different)
    unknown = _git(root, "ls-files", "--others", "--exclude-standard", "-z", "--", ".")
    new = {name.decode("utf-8", "surrogateescape") for name in unknown.split(b"\0") if name}
    return Changed({**changed, **dict.fromkeys(new)})


def _without_filters(root: Path) -> Iterator[str]:
    """Yield options by which files are compared as they are: a filter is a command of the repository."""
    listed = _git(root, "config", "--name-only", "-z", "--list")
    found = (_FILTER.fullmatch(name) for name in listed.split(b"\0"))
    for name in sorted({os.fsdecode(each[1]) for each in found if each is not None}):
        if "=" in name:  # no option can name it
            raise UserError(f"--diff-base: the repository has a filter with `=` in its name: `{name}`")
        for option in ("clean=", "smudge=", "process=", "required=false"):
            yield from ("-c", f"{name}.{option}")


def _git(
    root: Path,
    command: str,
    *arguments: str,
    options: Iterable[str] = (),
    into: IO[bytes] | None = None,
) -> bytes:
    """Return what git says, or write it ``into`` a file."""
    try:
        done = subprocess.run(
            ["git", *_OPTIONS, *options, command, *arguments],
            cwd=root,
            env={**os.environ, **_ALONE},
            stdin=subprocess.DEVNULL,
            stdout=into or subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
            check=False,
        )
    except OSError as error:
        raise UserError(f"--diff-base needs git: {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:  # it was waiting for a pipe that is called .gitattributes
        raise UserError(f"--diff-base: git {command} was not done after {PATIENCE} s") from error
    except ValueError as error:  # a NUL
        raise UserError(f"--diff-base: {error}") from error
    if done.returncode:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())
        raise UserError(f"--diff-base: git {command} failed: {said or 'no common history'}")
    return done.stdout or b""


def _files(difference: Iterable[bytes]) -> dict[str, list[range] | None]:
    """Read a diff without context: the lines that each file has anew."""
    found: dict[str, list[range] | None] = {}
    path, hunks = "", 0
    for row in _headers(row.removesuffix(b"\n") for row in difference):
        if row.startswith(b"+++ "):
            path = _path(row[4:])
        elif hunk := _HUNK.match(row):
            start, count = int(hunk[1]), int(hunk[2] or 1)
            hunks += 1
            lines = found.setdefault(path, [])
            if lines is None or hunks > MOST_HUNKS:
                found[path] = None
            else:
                lines.append(range(start, start + (count or 2)))
    return found


def _headers(rows: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the rows that are no content: a hunk says how many rows of content follow it."""
    skip = 0
    for row in rows:
        if skip:
            skip -= not row.startswith(b"\\")  # `\\ No newline at end of file` counts for nothing
            continue
        yield row
        if row.startswith(b"@@ "):
            old, new = row.split(b" ")[1:3]
            skip = sum(int(part.partition(b",")[2] or 1) for part in (old, new))


def _path(name: bytes) -> str:
    """Return a path as git writes it: like a string of C where it holds quotes or control characters."""
    name = name.rstrip(b"\t")
    if name.startswith(b'"') and name.endswith(b'"'):
        name = name[1:-1].decode("unicode_escape").encode("latin-1")
    return name.decode("utf-8", "surrogateescape")
