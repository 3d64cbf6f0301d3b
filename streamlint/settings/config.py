"""Settings from ``[tool.streamlint]`` in pyproject.toml, or from streamlint.toml."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.errors import UserError
from streamlint.files import UnreadableError, absolute, is_folder, read
from streamlint.finding import Confidence
from streamlint.patterns import PatternError, Patterns
from streamlint.settings.catalog import parse_selectors, suggestion

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

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
MAX_BYTES = 1_000_000
MOST_PARTS = 100
PLANNED = ("model",)
DEFAULT_STREAMS = ("legacy", "per-thread")


class ConfigError(UserError):
    """A configuration that cannot be used; the text names the file and the key."""


@dataclass(frozen=True, slots=True)
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
        return parse(document(explicit), explicit, trusted=True)
    for path in (root / OWN_FILE, root / "pyproject.toml"):
        if path.exists():
            return parse(document(path), path)
    return Config()


def parse(document: Mapping[str, object], path: Path, *, trusted: bool = False) -> Config:
    """Check a TOML document: the keys of streamlint.toml, or ``[tool.streamlint]`` of any other file.

    A ``trusted`` one was named by the user; others may be anybody's.
    """
    table = _Table(path, document)
    if path.name != OWN_FILE and (path.name == "pyproject.toml" or "tool" in document):
        tools = _Table(path, table.table("tool"), "tool.")
        table = _Table(path, tools.table("streamlint"), "tool.streamlint.")
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
        path=path,
    )


def with_known_codes(config: Config, rules: Sequence[RuleInfo]) -> Config:
    """Check the codes and prefixes of a configuration. Raises ConfigError on one that means no rule."""

    def known(key: str, words: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return parse_selectors(words, rules)
        except UserError as error:
            raise ConfigError(f"{config.path}: `{key}`: {error}") from error

    return replace(
        config,
        select=known("select", config.select),
        ignore=known("ignore", config.ignore),
        per_file_ignores=tuple(
            (glob, known(f"per-file-ignores.{glob}", codes)) for glob, codes in config.per_file_ignores
        ),
    )


def document(path: Path) -> dict[str, object]:
    """Return what a TOML file holds. Raises ConfigError, with its name, if it cannot be read."""
    try:
        text = read(path, MAX_BYTES).decode("utf-8")
        _check_dots(text)
        return tomllib.loads(text)
    except UnreadableError as error:
        raise ConfigError(f"{path}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: not valid TOML: nested too deeply") from error
    except ValueError as error:  # not UTF-8, not TOML, or a number of thousands of digits
        raise ConfigError(f"{path}: not valid TOML: {error}") from error


def _check_dots(text: str) -> None:
    """A key ``a.b.c...`` of 100,000 parts takes a TOML reader the square of that, in time and in memory."""
    for number, line in enumerate(text.splitlines(), 1):
        run = 0
        for part in line.split("."):
            run = run + 1 if part.strip() and not any(char in part.strip() for char in " =,") else 0
            if run > MOST_PARTS:
                raise ValueError(f"line {number}: a key of more than {MOST_PARTS} parts")


@dataclass(frozen=True, slots=True)
class _Table:
    """A TOML table whose errors name the file and the full key."""

    path: Path
    values: Mapping[str, object]
    prefix: str = ""

    def error(self, key: str, problem: str) -> ConfigError:
        return ConfigError(f"{self.path}: `{self.prefix}{key}` {problem}")

    def check_keys(self) -> None:
        for key in self.values:
            if key in PLANNED:
                raise self.error(key, "is not supported yet")
            if key not in KEYS:
                raise self.error(key, f"is not a known key{suggestion(key, KEYS)}")

    def table(self, key: str) -> Mapping[str, object]:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.error(key, "must be a table")
        return value

    def words(self, key: str) -> tuple[str, ...]:
        return self._strings(key, self.values.get(key, []))

    def _strings(self, key: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise self.error(key, "must be a list of strings")
        return tuple(value)

    def patterns(self, key: str, globs: tuple[str, ...]) -> tuple[str, ...]:
        try:
            Patterns.of(globs)
        except PatternError as error:
            raise self.error(key, f"holds a pattern that git would not understand: {error}") from error
        return globs

    def choice(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.values.get(key, default)
        if value not in allowed:
            raise self.error(key, f"must be one of {', '.join(allowed)}, not {value!r}")
        return str(value)

    def per_file_ignores(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        key = "per-file-ignores"
        self.patterns(key, tuple(self.table(key)))
        return tuple((glob, self._strings(f"{key}.{glob}", codes)) for glob, codes in self.table(key).items())

    def cache_dir(self, *, trusted: bool) -> Path | None:
        value = self.values.get("cache-dir")
        if value is None:
            return None
        if not trusted:
            raise self.error(
                "cache-dir", "is not for a tree to say: use `--cache-dir`, or a file named by `--config`"
            )
        if not isinstance(value, str):
            raise self.error("cache-dir", "must be a path")
        return absolute(self.path.parent / value)

    def jobs(self) -> int:
        value = self.values.get("jobs", 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.error("jobs", "must be a whole number, 0 for one a core")
        return value
