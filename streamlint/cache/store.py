"""The file that holds what is kept: an SQLite database that may be lost, damaged, locked or somebody else's.

Nothing here raises: what cannot be read was never kept, and what cannot be written is not kept.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from contextlib import closing, suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NAME = "streamlint-1.db"
"""The number is that of the tables; another version of them has a file of its own."""
MOST_BYTES = 256_000_000
MOST_OF_A_KEY = 4
"""Results kept for one file as it is, each with other things that were read."""
PATIENCE = 2.0
"""Seconds in which another run that writes may get done."""
DAY = 86_400
_OURS = 0x53744C74
_TABLES = (
    "CREATE TABLE trees (place BLOB PRIMARY KEY, state BLOB NOT NULL, used INTEGER NOT NULL)",
    "CREATE TABLE results (id BLOB PRIMARY KEY, key BLOB NOT NULL, reads BLOB NOT NULL,"
    " answer BLOB NOT NULL, value BLOB NOT NULL, used INTEGER NOT NULL)",
    "CREATE INDEX results_of_key ON results (key, used)",
    "CREATE INDEX results_by_use ON results (used)",
)
"""All that there is in the database, as SQLite keeps it. A view or a trigger would be a program."""
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder can be deleted at any time.\n"


class Row(NamedTuple):
    """A result: it holds where what is read (``reads``) is answered as it was (``answer``)."""

    key: bytes
    reads: bytes
    answer: bytes
    value: bytes

    @property
    def id(self) -> bytes:
        return digest(*self)


def digest(*parts: bytes) -> bytes:
    """Tells any two sequences of texts apart."""
    found = blake2b(digest_size=16)
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.digest()


class Store:
    """What is kept in a folder, which is made when something is written."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._connection: sqlite3.Connection | None = None
        self._usable = True
        self._aging: list[bytes] = []
        """Results that were asked for, and that a day ago were last."""

    def close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    def tree(self, place: bytes) -> bytes | None:
        """What was last kept of a tree."""
        for (state,) in self._read("SELECT state FROM trees WHERE place = ?", place):
            if isinstance(state, bytes) and state[:16] == digest(place, state[16:]):
                return state[16:]
        return None

    def results(self, keys: Sequence[bytes]) -> Iterator[Row]:
        """All results of some keys, as they were written."""
        yesterday = int(time.time()) - DAY
        for start in range(0, len(keys), 500):
            some = keys[start : start + 500]
            marks = ",".join("?" * len(some))
            rows = self._read(
                f"SELECT id, used, key, reads, answer, value FROM results WHERE key IN ({marks})",  # noqa: S608
                *some,
            )
            for found, used, *texts in rows:
                row = Row(*texts)
                if (
                    not isinstance(used, int)
                    or any(type(text) is not bytes for text in row)
                    or row.id != found
                ):
                    continue
                if used < yesterday:
                    self._aging.append(found)
                yield row

    def keep(self, trees: Sequence[tuple[bytes, bytes]], rows: Sequence[Row]) -> None:
        """Writes states of trees and results, all or nothing, and which results were asked for."""
        now = int(time.time())
        connection = self._connect(create=True) if trees or rows or self._aging else None
        if connection is None:
            return
        try:
            with closing(connection.cursor()) as cursor:
                cursor.execute("BEGIN IMMEDIATE")
                cursor.executemany(
                    "INSERT OR REPLACE INTO trees VALUES (?, ?, ?)",
                    [(place, digest(place, state) + state, now) for place, state in trees],
                )
                written = [(row.id, *row, now) for row in rows]
                cursor.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?)", written)
                cursor.executemany(
                    "DELETE FROM results WHERE id IN"
                    " (SELECT id FROM results WHERE key = ? ORDER BY used DESC LIMIT -1 OFFSET ?)",
                    [(key, MOST_OF_A_KEY) for key in {row[1] for row in written}],
                )
                cursor.executemany(
                    "UPDATE results SET used = ? WHERE id = ?", [(now, each) for each in self._aging]
                )
                cursor.execute("COMMIT")
                self._trim(cursor)
        except (sqlite3.Error, OSError) as error:
            self._fail(error)

    def _trim(self, cursor: sqlite3.Cursor) -> None:
        """Drops what was not used for longest, until there is room for more."""
        while _size(cursor) > MOST_BYTES:
            cursor.execute("BEGIN IMMEDIATE")
            (rows,) = cursor.execute("SELECT count(*) FROM results").fetchone()
            some = max(1, rows // 4)
            cursor.execute(
                "DELETE FROM results WHERE id IN (SELECT id FROM results ORDER BY used LIMIT ?)", (some,)
            )
            oldest = cursor.execute(
                "DELETE FROM trees WHERE place IN (SELECT place FROM trees ORDER BY used LIMIT 1)"
            )
            dropped = rows + max(0, oldest.rowcount)
            cursor.execute("COMMIT")
            if not dropped:
                return

    def counts(self) -> tuple[int, int]:
        """How many trees and results there are."""
        for trees, results in self._read(
            "SELECT (SELECT count(*) FROM trees), (SELECT count(*) FROM results)"
        ):
            return trees, results
        return 0, 0

    def clear(self) -> bool:
        """Removes it all; False if that is not possible, or if it is not ours to remove."""
        self.close()
        return self.refusal() is None and _removed(self.path)

    def refusal(self) -> str | None:
        """Why what is there cannot be used, or None."""
        try:
            connection = _opened(self.path, create=False)
        except sqlite3.Error as error:
            return None if _is_damaged(error) else str(error)
        except (OSError, ValueError) as error:
            return str(error)
        if connection is not None:
            connection.close()
        return None

    def _read(self, query: str, *values: bytes) -> list[tuple[Any, ...]]:
        connection = self._connect(create=False)
        if connection is None:
            return []
        try:
            return connection.execute(query, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            self._fail(error)
            return []

    def _connect(self, *, create: bool) -> sqlite3.Connection | None:
        if self._connection is None and self._usable:
            try:
                self._connection = _opened(self.path, create=create)
            except (sqlite3.Error, OSError, ValueError) as error:
                self._fail(error)
        return self._connection

    def _fail(self, error: Exception) -> None:
        """Goes on without; a file that is no database any more is removed, and made anew by ``keep``."""
        self.close()
        self._usable = self._usable and _is_damaged(error) and _removed(self.path)


def _is_damaged(error: Exception) -> bool:
    """Whether the file is no database, or none any more; what is only locked or full has another type."""
    return type(error) is sqlite3.DatabaseError


def _opened(path: Path, *, create: bool) -> sqlite3.Connection | None:
    """The database; None if there is none, or if it is not for us to use."""
    if create:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not _is_own(path.parent):  # nothing is left there either
            raise ValueError("others can write there")
    writable = _touched(path, create=create)
    if writable is None:
        return None
    if not (_is_own(path.parent) and _is_own(path)):
        raise ValueError("others can write there")
    mode = "rw" if writable else "ro"
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=PATIENCE)
    try:
        connection.isolation_level = None
        connection.execute("PRAGMA trusted_schema = OFF")
        (ours,) = connection.execute("PRAGMA application_id").fetchone()
        if not _has_tables(connection):
            if not (create and writable):
                connection.close()
                return None
            _make_tables(connection)
            _mark(path.parent)
        elif ours != _OURS:
            raise ValueError("somebody else's database")
    except BaseException:
        connection.close()
        raise
    return connection


def _has_tables(connection: sqlite3.Connection) -> bool:
    """Whether there is something in the database. Raises ValueError if that is not what we put there."""
    found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if found and found != set(_TABLES):
        raise ValueError("somebody else's database")
    return bool(found)


def _make_tables(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA auto_vacuum = FULL")
    connection.execute(f"PRAGMA application_id = {_OURS}")
    connection.execute("BEGIN IMMEDIATE")
    if not _has_tables(connection):  # another run was faster
        for table in _TABLES:
            connection.execute(table)
    connection.execute("COMMIT")


def _touched(path: Path, *, create: bool) -> bool | None:
    """Whether the file can be written; None if there is none. It is made for its owner only."""
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        os.close(os.open(path, flags | (os.O_CREAT if create else 0), 0o600))
    except FileNotFoundError:
        return None
    except OSError:
        return False if path.is_file() and not path.is_symlink() else None
    return True


def _is_own(path: Path) -> bool:
    """Whether nobody else has put it there or can change it."""
    if sys.platform == "win32":
        return True
    found = path.stat()
    return found.st_uid == os.geteuid() and not found.st_mode & 0o002


def _removed(path: Path) -> bool:
    """Removes a file that is no database; its name says that it was to be ours."""
    try:
        for name in (path, *(path.with_name(path.name + end) for end in ("-journal", "-wal", "-shm"))):
            name.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _mark(folder: Path) -> None:
    """Tells backups and git to leave the folder alone."""
    for name, content in (("CACHEDIR.TAG", _TAG), (".gitignore", "*\n")):
        with suppress(OSError), (folder / name).open("x", encoding="utf-8") as file:
            file.write(content)


def _size(cursor: sqlite3.Cursor) -> int:
    (pages,) = cursor.execute("PRAGMA page_count").fetchone()
    (size,) = cursor.execute("PRAGMA page_size").fetchone()
    return int(pages) * int(size)
