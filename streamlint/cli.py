"""The command line.

Exit status: 0 nothing found; 1 findings; 2 wrong use, an internal error, or a file that
could not be analyzed; 130 and 143 after Ctrl-C and SIGTERM.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint import __version__, api, notebook
from streamlint.cache.folder import default_folder
from streamlint.characters import plain
from streamlint.errors import UserError
from streamlint.files import absolute, is_there
from streamlint.finding import Confidence
from streamlint.frozen import replace
from streamlint.output import Format, render, text
from streamlint.output.places import Start, in_notebooks, shown_from
from streamlint.output.style import Style, wants_colors
from streamlint.output.terminal import complain, output_file, report_file, save, write
from streamlint.parsing import MAX_BYTES
from streamlint.run import check
from streamlint.run.progress import Progress
from streamlint.run.stop import signal_of, stoppable
from streamlint.settings import baseline
from streamlint.settings.baseline import Baseline
from streamlint.settings.catalog import catalog, suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streamlint.finding import SourceError
    from streamlint.output import Outcome
    from streamlint.settings.config import Config

CLEAN, FOUND, FAILED = 0, 1, 2
STOPPED = 128
"""Plus the number of the signal: what shells tell of a command that a signal ended."""
DESCRIPTION = "Finds missing stream ordering in Python GPU code, without running it."
COMMANDS = {
    "check": "look for problems (the default: `streamlint PATH...` is `streamlint check PATH...`)",
    "rules": "list the rules",
    "explain": "tell what a rule means, or how a finding goes wrong",
    "cache": "tell about what is kept of earlier runs, or clear it",
    "completion": "print what a shell needs to complete commands and options",
    "graph": "draw what is ordered before what in a function",
    "confirm": "run code on a GPU and show that a finding is real",
    "init": "give a project a configuration and a hook",
    "server": "answer an editor, by the language server protocol",
    "doctor": "measure on a GPU the facts that the analysis rests on",
}
ELSEWHERE = {
    "cache": "streamlint.cache.command",
    "completion": "streamlint.completion",
    "graph": "streamlint.graph",
    "confirm": "streamlint.confirm",
    "doctor": "streamlint.confirm.doctor",
    "explain": "streamlint.explain",
    "init": "streamlint.init",
    "server": "streamlint.server",
}
"""Commands with a command line of their own, loaded by name: they need parts that `check` does without."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; no exception leaves it."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with stoppable():
            return _dispatch(arguments)
    except UserError as error:
        _complain(str(error))
        return FAILED
    except KeyboardInterrupt as stop:
        return STOPPED + signal_of(stop)
    except BrokenPipeError:  # `streamlint confirm file.py --plan | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLEAN
    except SystemExit as end:  # argparse, after it has said why
        return end.code if isinstance(end.code, int) else FAILED
    except Exception as error:  # the last resort: a user gets no traceback
        return _internal_error(error)


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        parser().print_help(sys.stderr)
        return FAILED
    if arguments[0] == "--explain":  # as other analyzers have it
        arguments[0] = "explain"
    if arguments[0] in ELSEWHERE:
        module = importlib.import_module(ELSEWHERE[arguments[0]])
        return int(module.main(arguments[1:]))
    if arguments[0] not in (*COMMANDS, "-h", "--help", "--version"):
        _is_no_misspelt_command(arguments[0])
        arguments.insert(0, "check")
    options = parser().parse_args(arguments)
    match options.command:
        case "rules":
            return _rules(options)
        case _:
            return _watch(options) if options.watch else _check(options)


def _is_no_misspelt_command(word: str) -> None:
    """Raises UserError for ``streamlint chek src``: it would be told that there is no file `chek`."""
    near = suggestion(word, COMMANDS) if word.isalpha() and not is_there(Path(word)) else ""
    if near:
        raise UserError(f"`{word}` is neither a command nor a file{near}")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="streamlint", description=DESCRIPTION, epilog=__doc__.split("\n\n")[1] if __doc__ else None
    )
    made.add_argument("--version", action="version", version=f"streamlint {__version__}")
    commands = made.add_subparsers(dest="command", metavar="COMMAND", required=True, prog=made.prog)
    usage = "%(prog)s [OPTION ...] [PATH ...]"  # fifteen lines of options hid what is wrong
    _check_options(commands.add_parser("check", help=COMMANDS["check"], description=DESCRIPTION, usage=usage))
    rules = commands.add_parser("rules", help=COMMANDS["rules"])
    rules.add_argument("--output-format", choices=("text", "json"), default="text")
    for name in ELSEWHERE:  # dispatched before parsing; here for the help text only
        commands.add_parser(name, help=COMMANDS[name], add_help=False)
    return made


CACHE_DIR = "where what is found is kept (default: the user's cache folder)"
JOBS = "processes, no more than cores and files; 0 is one for each core"
EXECUTOR = "let the workers of a Dask scheduler do it, who see the files under the same paths"


def _check_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    about = "files and folders (default: the current one); `-` is standard input"
    add("paths", nargs="*", default=["."], metavar="PATH", help=about)
    report = parser.add_argument_group("what to report")
    for name, which in (("--select", "only these"), ("--ignore", "not these")):
        report.add_argument(
            name,
            action="append",
            default=[],
            metavar="CODES",
            help=f"{which} codes or prefixes (comma separated), or ALL; may be repeated",
        )
    report.add_argument(
        "--min-confidence",
        choices=[each.value for each in reversed(Confidence)],
        help="hide findings less sure than this (default: likely)",
    )
    report.add_argument("--baseline", type=Path, metavar="FILE", help="hide the findings known to this file")
    report.add_argument(
        "--write-baseline", type=output_file, metavar="FILE", help="record the findings as known"
    )
    report.add_argument(
        "--prune-baseline", action="store_true", help="drop from the --baseline file what is found no more"
    )
    report.add_argument(
        "--diff-base",
        metavar="REV",
        help="only findings with a place in a line that differs from the git revision (since the merge base)",
    )
    report.add_argument(
        "--add-ignore",
        metavar="REASON",
        help="write a suppression comment with this reason for each finding, instead of showing it",
    )
    mend = parser.add_argument_group("what to mend")
    mend.add_argument(
        "--fix", action="store_true", help="apply the fixes that only add an order; show the rest"
    )
    mend.add_argument(
        "--unsafe-fixes",
        action="store_true",
        help="with --fix or --diff: also those that move or replace code, or rest on one path",
    )
    mend.add_argument("--diff", action="store_true", help="show what --fix would change, and change nothing")
    output = parser.add_argument_group("output")
    output.add_argument(
        "--output-format",
        choices=[each.value for each in Format],
        default=Format.FULL.value,
        help="full shows the source (default), concise is one line a finding",
    )
    output.add_argument(
        "--paths-from",
        choices=[each.value for each in Start],
        help="where paths start: the current folder (text) or the project's root (all other formats)",
    )
    output.add_argument("--output", type=report_file, metavar="FILE", help="write the findings to a file")
    output.add_argument("--statistics", action="store_true", help="count the findings of each rule")
    output.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="auto: if it is a terminal"
    )
    output.add_argument("-q", "--quiet", action="store_true", help="no summary, only findings and errors")
    output.add_argument("--exit-zero", action="store_true", help="exit with 0 even if there are findings")
    running = parser.add_argument_group("running")
    running.add_argument("--config", type=Path, metavar="FILE", help="use this configuration file")
    running.add_argument("--jobs", type=_job_count, metavar="N", help=JOBS)
    running.add_argument("--executor", default="", metavar="dask://HOST:PORT", help=EXECUTOR)
    running.add_argument("--stdin-filename", type=Path, metavar="NAME", help="the path that `-` stands for")
    running.add_argument("--watch", action="store_true", help="look again each time a file has changed")
    running.add_argument("--no-cache", action="store_true", help="analyze all anew, and keep nothing")
    running.add_argument("--cache-dir", type=Path, metavar="FOLDER", help=CACHE_DIR)


def _job_count(word: str) -> int:
    if not word.isdecimal():
        raise argparse.ArgumentTypeError(f"`{word}` is not a number of processes")
    return int(word)


def _rules(options: argparse.Namespace) -> int:
    rules = catalog()
    if options.output_format == "json":
        rows = [
            {
                "code": rule.code,
                "name": rule.name,
                "summary": rule.summary,
                "severity": rule.severity.value,
                "default": rule.default,
            }
            for rule in rules
        ]
        import json

        write(json.dumps(rows, indent=2) + "\n", sys.stdout)
        return CLEAN
    longest = max(len(rule.name) for rule in rules)
    for rule in rules:
        off = "" if rule.default else " (off unless selected)"
        write(f"{rule.code}  {rule.name:{longest}}  {rule.summary}{off}\n", sys.stdout)
    return CLEAN


def _watch(options: argparse.Namespace) -> int:
    from streamlint.watch import watch  # needs a library that no other run does

    writing = {
        "--write-baseline": options.write_baseline,
        "--prune-baseline": options.prune_baseline,
        "--add-ignore": options.add_ignore,
        "--fix": options.fix,
        "`-`": "-" in options.paths,
    }
    for name, given in writing.items():
        if given:
            raise UserError(f"--watch looks again and again: leave {name} out")
    request = _request(options)
    for path in request.paths:
        if not is_there(path):
            raise UserError(f"cannot watch {path}: no such file or folder")
    around = [request.root] if request.is_project else request.paths
    return watch(lambda: _check(options), [*around, *request.paths], options.output)


def _check(options: argparse.Namespace) -> int:
    request = _request(options)
    if options.fix or options.diff:
        return _fix(options, request)
    with Progress(None if options.quiet else sys.stderr) as progress:
        outcome = check.run(request, progress)
    if not outcome.files and not outcome.errors and outcome.stop is None:
        write("streamlint: warning: no Python files there, or all of them are excluded\n", sys.stderr)
    if options.output_format == Format.HTML.value and outcome.stop is None:
        outcome = check.with_evidence(request, outcome)
    shown = _from_where(options, outcome)
    _name_errors(shown.errors)
    if outcome.stop is not None:
        _complain(outcome.stop.message)
    if options.write_baseline is not None and outcome.stop is None:
        save(options.write_baseline, baseline.dump(outcome.findings))
        write(
            f"Recorded {text.counted(len(outcome.findings), 'finding')} "
            f"in {plain(str(options.write_baseline))}.\n",
            sys.stderr,
        )
        return FAILED if outcome.errors else CLEAN
    if options.add_ignore is not None and outcome.stop is None:
        return _add_ignores(options, request, outcome)
    if options.prune_baseline and outcome.stop is None:
        _prune(options.baseline, request.known, outcome)
        outcome, shown = replace(outcome, stale=()), replace(shown, stale=())
    if options.write_baseline is None:
        _report(options, shown)
    if outcome.stop is not None:
        return STOPPED + outcome.stop.number
    if outcome.errors:
        return FAILED
    return FOUND if outcome.findings and not options.exit_zero else CLEAN


def _name_errors(errors: Iterable[SourceError]) -> None:
    for error in errors:
        place = f"{error.path}:{error.line}" if error.line else error.path  # line 0: the file as a whole
        _complain(f"{place}: {error.message}")


def _fix(options: argparse.Namespace, request: check.Request) -> int:
    from streamlint.run import fixing

    with Progress(None if options.quiet else sys.stderr) as progress:
        mended = fixing.run(request, unsafe=options.unsafe_fixes, only_diff=options.diff, progress=progress)
    shown = _from_where(options, mended.outcome)
    _name_errors((*shown.errors, *mended.errors))
    if mended.outcome.stop is not None:
        _complain(mended.outcome.stop.message)
        return STOPPED + mended.outcome.stop.number
    if options.diff:
        write(mended.diff, sys.stdout)
    else:
        _report(options, shown)
    if not options.quiet:
        write(mended.summary, sys.stderr)
    if mended.errors or mended.outcome.errors:
        return FAILED
    left = mended.diff if options.diff else mended.outcome.findings
    return FOUND if left and not options.exit_zero else CLEAN


def _request(options: argparse.Namespace) -> check.Request:
    if options.unsafe_fixes and not (options.fix or options.diff):
        raise UserError("--unsafe-fixes needs --fix or --diff")
    if (options.fix or options.diff) and (
        options.add_ignore is not None or options.write_baseline is not None
    ):
        raise UserError("--fix and --diff do not go with --add-ignore and --write-baseline")
    if "-" in options.paths and (options.fix or options.diff):
        raise UserError("--fix and --diff change files: `-` is none")
    if "-" in options.paths and options.executor:
        raise UserError("--executor reads files where they are analyzed: `-` is none")
    if options.add_ignore is not None:
        from streamlint.settings.ignores import checked

        checked(options.add_ignore)  # before the files are analyzed
    stdin = _stdin(options)
    request = api.request(
        tuple(Path(word) for word in options.paths if word != "-"),
        texts=None if stdin is None else check.Texts(dict([stdin]), (stdin[0],)),
        config=options.config,
        select=options.select,
        ignore=options.ignore,
        min_confidence=Confidence(options.min_confidence) if options.min_confidence else None,
        jobs=options.jobs,
        known=_known(options),
        diff_base=options.diff_base,
    )
    return replace(request, cache=_cache(options, request.config), executor=options.executor)


def _cache(options: argparse.Namespace, config: Config) -> Path | None:
    if options.no_cache:
        return None
    if options.cache_dir is not None:
        return absolute(options.cache_dir)
    return config.cache_dir or default_folder()


def _known(options: argparse.Namespace) -> Baseline:
    new: Path | None = options.write_baseline
    if new is not None and new.is_file() and new.stat().st_size:
        baseline.read(new)  # what is no baseline is not written over
    if options.baseline is None:
        if options.prune_baseline:
            raise UserError("--prune-baseline needs --baseline")
        return Baseline()
    known = baseline.read(options.baseline)
    # A new baseline holds the old findings too, as long as they are there.
    return known if options.write_baseline is None else Baseline()


def _prune(path: Path, known: Baseline, outcome: Outcome) -> None:
    if outcome.stale:
        save(path, known.without(outcome.stale))
    write(f"Dropped {text.counted(len(outcome.stale), 'finding')} from {plain(str(path))}.\n", sys.stderr)


def _add_ignores(options: argparse.Namespace, request: check.Request, outcome: Outcome) -> int:
    from streamlint.run import ignoring

    ignored = ignoring.run(request, outcome, options.add_ignore)
    where = text.counted(ignored.files, "file")
    write(f"Wrote comments for {text.counted(ignored.findings, 'finding')} into {where}.\n", sys.stderr)
    left = _from_where(options, ignored.outcome)
    if left.findings:
        _report(options, left)
    if left.stop is not None:
        return STOPPED + left.stop.number
    return FAILED if left.errors else CLEAN


def _stdin(options: argparse.Namespace) -> tuple[Path, bytes] | None:
    if "-" in options.paths and options.add_ignore is not None:
        raise UserError("--add-ignore writes into files: `-` is none")
    if "-" not in options.paths:
        if options.stdin_filename is not None:
            raise UserError("--stdin-filename needs `-` among the paths")
        return None
    name = options.stdin_filename or Path("stdin.py")
    if name.suffix == notebook.SUFFIX:
        raise UserError("a notebook is not read from standard input")
    return Path.cwd() / name, _standard_input()


def _standard_input() -> bytes:
    if sys.stdin is None:  # `<&-`
        raise UserError("standard input is closed")
    try:
        content = sys.stdin.buffer.read(MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"cannot read standard input: {error.strerror or error}") from error
    if len(content) > MAX_BYTES:
        raise UserError(f"standard input is too large (the limit is {MAX_BYTES} bytes)")
    return content


def _from_where(options: argparse.Namespace, outcome: Outcome) -> Outcome:
    form = Format(options.output_format)
    start = Start.usual(form) if options.paths_from is None else Start(options.paths_from)
    return in_notebooks(shown_from(outcome, Path.cwd()) if start is Start.HERE else outcome, form)


def _report(options: argparse.Namespace, outcome: Outcome) -> None:
    form = Format(options.output_format)
    to_file = options.output is not None
    style = Style(options.color == "always" if to_file else wants_colors(options.color, sys.stdout))
    written = render(form, outcome, style)
    if options.statistics and form in (Format.FULL, Format.CONCISE):
        written += text.statistics(outcome)
    if to_file:
        save(options.output, written)
    else:
        write(written, sys.stdout)
    if not options.quiet:
        # Full output is for people, and ends with its summary. Everything else is read by programs.
        aside = sys.stdout if form is Format.FULL and not to_file else sys.stderr
        write(text.summary(outcome, Style(wants_colors(options.color, aside))), aside)


def _complain(message: str) -> None:
    """Tell what is wrong; names and keys in it may be those of the tree, and hold anything."""
    complain(f"error: {message}")


def _internal_error(error: Exception) -> int:
    if os.environ.get("STREAMLINT_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    detail = " ".join(str(error).split())
    _complain(
        f"internal error: {type(error).__name__}: {detail}; please report it, "
        "with the traceback that STREAMLINT_DEBUG=1 shows"
    )
    return FAILED
