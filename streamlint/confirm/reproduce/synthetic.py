"""``streamlint confirm --synthesize``: write a reproducer for each finding, and run it."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Final

from streamlint.confirm.gpu.driver import Driver, DriverUnavailableError
from streamlint.confirm.reproduce.slicing import NothingToReplayError, slice_of
from streamlint.confirm.reproduce.synthesize import program
from streamlint.confirm.run.processes import tidy_environment
from streamlint.files import SourceFiles, write_whole
from streamlint.finding import Severity
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from streamlint.finding import Finding
    from streamlint.source import Span

SYNTHETIC: Final = "SYNTHETIC"
"""The verdict of every reproducer. It replays a prediction, and so never counts as confirmed."""

_VALUES: Final = re.compile(r"with the missing edge: (?P<right>.*)\nwithout it: +(?P<racing>.*)\n")


@frozen()
class Reproducer:
    """``path`` is where it was written; without one, ``note`` says why there is none.

    After a run ``values`` are what it saw with the missing edge and without it; where it could not be
    run, or ended early, ``note`` says so.
    """

    finding: Finding
    path: Path | None
    note: str = ""
    values: tuple[str, str] | None = None


def main(findings: Iterable[Finding], root: Path, folder: Path, python: str, timeout_s: float) -> int:
    """Write the reproducers into ``folder``, run them, and say what they showed; return the exit status.

    :raises OSError: the folder or a file cannot be written.
    :raises DriverUnavailableError: they were written, and there is no GPU to run them.
    """
    done = write_all((one for one in findings if one.severity is not Severity.ADVICE), root, folder)
    try:
        Driver()
    except DriverUnavailableError as error:
        print(text(done))
        raise DriverUnavailableError(f"running them needs an NVIDIA GPU: {error}") from None
    done = [run(each, python, timeout_s) for each in done]
    print(text(done))
    return exit_status(done)


def write_all(findings: Iterable[Finding], root: Path, folder: Path) -> list[Reproducer]:
    """Write the reproducers into ``folder``, which is made if needed.

    :raises OSError: the folder or a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return [_write(finding, root, folder) for finding in findings]


def _write(finding: Finding, root: Path, folder: Path) -> Reproducer:
    try:
        text = program(finding, slice_of(finding), lambda span: _statement(root, span))
    except NothingToReplayError as reason:
        return Reproducer(finding, None, str(reason))
    path = folder / file_name(finding)
    write_whole(path, text)
    return Reproducer(finding, path)


def file_name(finding: Finding) -> str:
    """A name that tells the rule and the function, and stays the same when lines move."""
    function = re.sub(r"\W+", "_", finding.function).strip("_")
    return f"{finding.code.lower()}_{function}_{finding.fingerprint[:8]}.py"


def _statement(root: Path, span: Span) -> str:
    lines = SourceFiles(root).lines(span.path)
    return lines[span.line - 1].strip() if span.line <= len(lines) else ""


def run(reproducer: Reproducer, python: str, timeout_s: float) -> Reproducer:
    """Run a written reproducer in a process of its own."""
    if reproducer.path is None:
        return reproducer
    try:
        done = subprocess.run(
            [python, str(reproducer.path.resolve())],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=tidy_environment(reproducer.path.parent),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Reproducer(reproducer.finding, reproducer.path, f"it did not end within {timeout_s:g} s")
    found = _VALUES.search(done.stdout)
    if found is None:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no output"]
        return Reproducer(reproducer.finding, reproducer.path, f"it failed: {said[-1][:300]}")
    return Reproducer(reproducer.finding, reproducer.path, values=(found["right"], found["racing"]))


def text(reproducers: Sequence[Reproducer]) -> str:
    """One or two lines for each finding, and a count."""
    lines = []
    for each in reproducers:
        finding = each.finding
        place = f"{finding.primary.path}:{finding.primary.line}: {finding.code} in {finding.function}"
        if each.path is None:
            lines.append(f"{place}: no reproducer: {each.note}")
            continue
        lines.append(f"{place}: {SYNTHETIC}")
        lines.append(f"    {each.path}")
        lines.append(f"    {_outcome(each)}")
    written = sum(each.path is not None for each in reproducers)
    differ = sum(each.values is not None and each.values[0] != each.values[1] for each in reproducers)
    lines.append(
        f"{written} written, {differ} with values that differ; they replay predictions, and confirm nothing"
    )
    return "\n".join(lines)


def _outcome(reproducer: Reproducer) -> str:
    if reproducer.values is None:
        return reproducer.note or "not run"
    right, racing = reproducer.values
    return f"{right} with the missing edge, {racing} without it"


def exit_status(reproducers: Sequence[Reproducer]) -> int:
    """Return 2 if a reproducer was not run to its end, else 0: a replay is never a confirmation."""
    return 2 if any(each.path is not None and each.values is None for each in reproducers) else 0
