"""Settings from ``[tool.streamlint]`` in pyproject.toml, or from streamlint.toml."""

from __future__ import annotations

import os
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.errors import UserError, place
from streamlint.files import absolute, is_folder
from streamlint.finding import Confidence
from streamlint.frozen import frozen, replace
from streamlint.patterns import PatternError, Patterns
from streamlint.settings.catalog import parse_selectors, suggestion
from streamlint.settings.toml import ConfigError, document_of, line_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streamlint.settings.catalog import RuleInfo

OWN_FILE = "streamlint.toml"
MARKERS = ("pyproject.toml", OWN_FILE, ".git")
KEYS = (
    "select",
    "ignore",
    "min-confidence",
    "exclude",
    "default-stream",
    "per-file-ignores",
    "jobs",
    "cache-dir",
)
PLANNED = ("model",)
DEFAULT_STREAMS = ("legacy", "per-thread")


@frozen()
class Config:
    """What a configuration file says; the defaults are those of a run without one."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    min_confidence: Confidence = Confidence.LIKELY
    exclude: tuple[str, ...] = ()
    """Patterns as in .gitignore, relative to the root; they hold for named files too."""
    default_stream: str = "legacy"
    """What CUDA's null stream means: ``legacy`` or ``per-thread``."""
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    jobs: int = 1
    """Processes; 0 is one for each core."""
    cache_dir: Path | None = None
    """Where what is found is kept: for a file that the user names to say, not for one of the tree."""
    path: Path | None = field(default=None, compare=False)
    """The file it was read from."""


def find_root(paths: Sequence[Path]) -> tuple[Path, bool]:
    """Return the project root of some paths, and whether a marker was found there.

    The root is the nearest folder, at or above what the paths have in common, that holds
    pyproject.toml, streamlint.toml or .git; without one it is the common folder itself.
    """
    folders = [path if is_folder(path) else path.parent for path in map(absolute, paths)]
    common = Path(os.path.commonpath(folders)) if folders else Path.cwd()
    for folder in (common, *common.parents):
        if any((folder / marker).exists() for marker in MARKERS):
            return folder, True
    return common, False


def load(root: Path, explicit: Path | None = None) -> Config:
    """Read the configuration of a root, or the file that the user named.

    Raises ConfigError on a file that cannot be read, an unknown key or a wrong type.
    """
    if explicit is not None:
        return _config(_own(explicit), trusted=True)
    for path in (root / OWN_FILE, root / "pyproject.toml"):
        if path.exists():
            return _config(_own(path), trusted=False)
    return Config()


def is_configured(project: Path) -> bool:
    """Whether a pyproject.toml has a table for streamlint. Raises ConfigError if it cannot be read."""
    return "streamlint" in _table_of(project).table("tool")


def _table_of(path: Path) -> _Table:
    text = text_of(path)
    return _Table(path, text, document_of(text, path))


def _own(path: Path) -> _Table:
    """The keys of streamlint.toml, or ``[tool.streamlint]`` of any other file."""
    table = _table_of(path)
    if path.name != OWN_FILE and (path.name == "pyproject.toml" or "tool" in table.values):
        return table.below("tool").below("streamlint")
    return table


def _config(table: _Table, *, trusted: bool) -> Config:
    """Check a table. A ``trusted`` one was named by the user; others may be anybody's."""
    table.check_keys()
    return Config(
        select=table.words("select"),
        ignore=table.words("ignore"),
        min_confidence=Confidence(
            table.choice("min-confidence", tuple(each.value for each in Confidence), Confidence.LIKELY.value)
        ),
        exclude=table.patterns("exclude", table.words("exclude")),
        default_stream=table.choice("default-stream", DEFAULT_STREAMS, "legacy"),
        per_file_ignores=table.per_file_ignores(),
        jobs=table.jobs(),
        cache_dir=table.cache_dir(trusted=trusted),
        path=table.path,
    )


def with_known_codes(config: Config, rules: Sequence[RuleInfo]) -> Config:
    """Check the codes and prefixes of a configuration. Raises ConfigError on one that means no rule."""

    def known(words: tuple[str, ...], *keys: str) -> tuple[str, ...]:
        try:
            return parse_selectors(words, rules)
        except UserError as error:
            assert config.path is not None, "the defaults name no rule"
            raise _own(config.path).error(f"holds an {error}", *keys) from error

    return replace(
        config,
        select=known(config.select, "select"),
        ignore=known(config.ignore, "ignore"),
        per_file_ignores=tuple(
            (glob, known(codes, "per-file-ignores", glob)) for glob, codes in config.per_file_ignores
        ),
    )


@frozen()
class _Table:
    """A TOML table whose errors name the file, the line and the full key."""

    path: Path
    text: str
    """All of the file."""
    values: Mapping[str, object]
    prefix: tuple[str, ...] = ()

    def error(self, problem: str, *keys: str) -> ConfigError:
        whole = (*self.prefix, *keys)
        where = place(self.path, line_of(self.text, whole))
        return ConfigError(f"{where}: `{'.'.join(whole)}` {problem}")

    def below(self, key: str) -> _Table:
        return replace(self, values=self.table(key), prefix=(*self.prefix, key))

    def check_keys(self) -> None:
        for key in self.values:
            if key in PLANNED:
                raise self.error("is not supported yet", key)
            if key not in KEYS:
                raise self.error(f"is not a known key{suggestion(key, KEYS)}", key)

    def table(self, key: str) -> Mapping[str, object]:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.error("must be a table", key)
        return value

    def words(self, key: str) -> tuple[str, ...]:
        return self._strings(self.values.get(key, []), key)

    def _strings(self, value: object, *keys: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise self.error("must be a list of strings", *keys)
        return tuple(value)

    def patterns(self, key: str, globs: tuple[str, ...]) -> tuple[str, ...]:
        try:
            Patterns.of(globs)
        except PatternError as error:
            raise self.error(f"holds a pattern that git would not understand: {error}", key) from error
        return globs

    def choice(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.values.get(key, default)
        if value not in allowed:
            raise self.error(f"must be one of {', '.join(allowed)}, not {value!r}", key)
        return str(value)

    def per_file_ignores(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        key = "per-file-ignores"
        self.patterns(key, tuple(self.table(key)))
        return tuple((glob, self._strings(codes, key, glob)) for glob, codes in self.table(key).items())

    def cache_dir(self, *, trusted: bool) -> Path | None:
        value = self.values.get("cache-dir")
        if value is None:
            return None
        if not trusted:
            raise self.error(
                "is not for a tree to say: use `--cache-dir`, or a file named by `--config`", "cache-dir"
            )
        if not isinstance(value, str):
            raise self.error("must be a path", "cache-dir")
        return absolute(self.path.parent / value)

    def jobs(self) -> int:
        value = self.values.get("jobs", 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.error("must be a whole number, 0 for one a core", "jobs")
        return value
