"""streamlint in a program of yours: ``from streamlint import check_paths, check_source``.

Nothing that is checked is imported or run. Functions may be called from several threads; each call reads the
files anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.errors import UserError
from streamlint.files import encoded
from streamlint.finding import Confidence
from streamlint.frozen import frozen
from streamlint.run import check
from streamlint.settings.baseline import Baseline
from streamlint.settings.catalog import Selection, catalog, parse_selectors
from streamlint.settings.config import find_root, load, with_known_codes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streamlint.finding import Finding, SourceError
    from streamlint.run.changed import Changed


@frozen()
class Result:
    """What a check gave. Paths in it start at ``root``; lines count from 1, columns from 0 in code points."""

    root: Path
    findings: tuple[Finding, ...]
    errors: tuple[SourceError, ...]
    """Files that could not be analyzed; the others were."""

    def __bool__(self) -> bool:
        return bool(self.findings)


def check_paths(
    paths: str | Path | Iterable[str | Path],
    *,
    config: str | Path | None = None,
    select: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    min_confidence: Confidence | str | None = None,
    jobs: int | None = None,
    texts: Mapping[Path, str] | None = None,
) -> Result:
    """Check files and folders, as ``streamlint check`` does.

    The configuration is that of the project around the paths, or the file ``config``; what is given here
    comes before it. ``select`` and ``ignore`` take codes, prefixes and names of rules,
    also as one text with commas. ``texts`` are read in
    the place of files: what an editor has not saved yet. docs/api.md has an example.

    Raises UserError on a wrong configuration or argument, or an unknown rule.
    """
    overlay = {_path(path).absolute(): encoded(_text(text)) for path, text in (texts or {}).items()}
    return _result(
        request(
            _several_paths(paths),
            texts=check.Texts(overlay),
            config=None if config is None else _path(config),
            select=select,
            ignore=ignore,
            min_confidence=min_confidence,
            jobs=jobs,
        )
    )


def check_source(
    source: str,
    path: str | Path = "source.py",
    *,
    select: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    min_confidence: Confidence | str | None = None,
) -> Result:
    """Check the text of one file. Its imports are looked up around ``path``, which need not exist.

    Raises UserError on a wrong configuration of the project around it, a wrong argument, or an unknown rule.
    """
    place = _path(path).absolute()
    given = check.Texts({place: encoded(_text(source))}, (place,))
    return _result(
        request((), texts=given, select=select, ignore=ignore, min_confidence=min_confidence, jobs=1)
    )


def request(  # noqa: PLR0913
    paths: tuple[Path, ...],
    *,
    texts: check.Texts | None = None,
    config: Path | None = None,
    select: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    min_confidence: Confidence | str | None = None,
    jobs: int | None = None,
    known: Baseline | None = None,
    diff_base: str | None = None,
) -> check.Request:
    """Put together what is asked for and what the project's configuration says.

    Raises UserError on a wrong configuration, an unknown rule, or a revision that git does not know.
    """
    texts = texts or check.Texts()
    _check_jobs(jobs)
    root, is_project = find_root([*paths, *texts.wanted])
    rules = catalog()
    settings = with_known_codes(load(root, config), rules)
    return check.Request(
        root=root,
        is_project=is_project,
        paths=paths,
        config=settings,
        rules=rules,
        selection=Selection(
            parse_selectors(_several(select), rules) or settings.select,
            settings.ignore + parse_selectors(_several(ignore), rules),
        ),
        min_confidence=_confidence(min_confidence) or settings.min_confidence,
        jobs=settings.jobs if jobs is None else jobs,
        texts=texts,
        changed=_changed(diff_base, root),
        known=known or Baseline(),
    )


def _several(words: str | Sequence[str]) -> Sequence[str]:
    """A text is a sequence of its letters, too."""
    several = (words,) if isinstance(words, str) else tuple(words)
    for word in several:
        _text(word)
    return several


def _several_paths(paths: str | Path | Iterable[str | Path]) -> tuple[Path, ...]:
    if isinstance(paths, (str, os.PathLike)) or not isinstance(paths, Iterable):
        return (_path(paths),)
    return tuple(map(_path, paths))


def _check_jobs(jobs: object) -> None:
    if jobs is not None and not (isinstance(jobs, int) and jobs >= 0):
        raise UserError(f"`{jobs!r}` is not a number of processes")


def _path(path: object) -> Path:
    """Who has no types checked may give anything; an empty name would be the current folder."""
    if isinstance(path, (str, os.PathLike)) and os.fspath(path):
        return Path(path)
    raise UserError(f"`{path!r}` is not a path")


def _text(text: object) -> str:
    if isinstance(text, str):
        return text
    raise UserError(f"`{text!r}` is not a text")


def _confidence(word: Confidence | str | None) -> Confidence | None:
    try:
        return Confidence(word) if word is not None else None
    except ValueError as error:
        raise UserError(f"`{word}` is no confidence: certain, likely or possible") from error


def _changed(diff_base: str | None, root: Path) -> Changed | None:
    if diff_base is None:
        return None
    from streamlint.run.changed import changed_since  # starts git, which few runs do

    return changed_since(diff_base, root)


def _result(asked: check.Request) -> Result:
    outcome = check.run(asked)
    if outcome.stop is not None:  # a part would be taken for all
        raise KeyboardInterrupt
    return Result(asked.root, outcome.findings, outcome.errors)
