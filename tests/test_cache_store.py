"""What is kept may be lost, damaged, locked or somebody else's: then it is found again."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamlint.cache import codec, folder, snapshot, store
from streamlint.cache.store import NAME, Row, Store
from streamlint.finding import (
    Confidence,
    Edit,
    Finding,
    Fix,
    LeftOut,
    Related,
    Report,
    Seen,
    Severity,
    SourceError,
    Statistics,
)
from streamlint.source import Span
from tests.cli_support import run
from tests.test_cache import project, report

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent.parent
ROW = Row(b"key", b"reads", b"answer", b"value")


def shortened(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garbled(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for place in range(4_096, len(data), 97):
        data[place] ^= 0x55
    path.write_bytes(data)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def no_database(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 1_000)


def without_tables(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE results")
    database.close()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def other_types(path: Path) -> None:
    """Rows as we write them, with a list in the place of a code."""
    with sqlite3.connect(path) as database:
        found = database.execute("SELECT key, reads, answer, value FROM results").fetchall()
        for key, reads, answer, value in found:
            row = Row(key, reads, answer, value.replace(b'"SL101"', b'["SL101"]'))
            database.execute("UPDATE results SET id = ?, value = ? WHERE key = ?", (row.id, row.value, key))
    database.close()


def other_values(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("UPDATE results SET value = '[]'")
        database.execute("UPDATE trees SET state = 7")
    database.close()


def open_to_all(path: Path) -> None:
    path.chmod(0o666)


def a_view(path: Path) -> None:
    """Reading it has no end."""
    with sqlite3.connect(path) as database:
        database.execute("ALTER TABLE results RENAME TO own")
        database.execute(
            "CREATE VIEW results AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
            " SELECT own.* FROM own, c"
        )
    database.close()


def a_trigger(path: Path) -> None:
    """Writing fills the disk."""
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TRIGGER t AFTER INSERT ON trees"
            " BEGIN INSERT INTO trees SELECT randomblob(9), zeroblob(100000000), 1 FROM results, results; END"
        )
        database.execute("DELETE FROM results")
    database.close()


DAMAGE = [
    *(shortened, garbled, emptied, no_database, without_tables, a_folder, other_values, open_to_all),
    *(other_types, a_view, a_trigger),
]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_what_is_damaged_is_not_used(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    root, cache = project(tmp_path)
    first = report(root, cache)
    damage(cache / NAME)
    assert report(root, cache) == first
    assert report(root, cache) == first


@pytest.mark.parametrize("damage", [no_database, emptied])
def test_what_is_damaged_is_made_anew(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    root, cache = project(tmp_path)
    report(root, cache)
    damage(cache / NAME)
    report(root, cache)
    assert Store(cache).counts() == (2, 4)


def test_another_programs_database_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, cache = project(tmp_path)
    cache.mkdir()
    with sqlite3.connect(cache / NAME) as database:
        database.execute("CREATE TABLE precious (value)")
    database.close()
    before = (cache / NAME).read_bytes()
    first = report(root, cache)
    assert len(first.findings) > 1
    assert "somebody else's" in run(capsys, "cache", "info", "--cache-dir", cache).out
    assert run(capsys, "cache", "clear", "--cache-dir", cache).status == 2
    assert (cache / NAME).read_bytes() == before


def test_a_locked_database_is_not_waited_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PATIENCE", 0.01)
    root, cache = project(tmp_path)
    first = report(root, cache)
    other = sqlite3.connect(cache / NAME, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert report(root, cache) == first
    other.close()
    assert Store(cache).counts() == (2, 4), "and it was not removed"


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    root, cache = project(tmp_path)
    cache.write_text("")
    assert len(report(root, cache).findings) > 1
    assert len(report(root, cache / "inner").findings) > 1
    assert cache.read_text() == ""


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    root, cache = project(tmp_path)
    cache.mkdir()
    (cache / NAME).symlink_to(tmp_path / "elsewhere")
    assert len(report(root, cache).findings) > 1
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_full_disk_is_no_error(tmp_path: Path) -> None:
    root, cache = project(tmp_path)

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))

    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "streamlint", "-q", root, "--cache-dir", cache],
            # Python would leave half of what it compiles beside the source, and take it for all of it later.
            env={**os.environ, "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"},
            preexec_fn=limited,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (1, "")
    assert report(root, cache) == report(root, None)


def test_it_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST_BYTES", 200_000)
    for number in range(60):
        kept = Store(tmp_path)
        name = b"%d" % number
        kept.keep([(name, name * 1_000)], [Row(name, b"", b"", name * 10_000)])
        assert list(kept.results([name]))
        kept.close()
        assert (tmp_path / NAME).stat().st_size <= 300_000
    _, results = Store(tmp_path).counts()
    assert 0 < results < 20


def test_a_file_has_few_results(tmp_path: Path) -> None:
    kept = Store(tmp_path)
    for number in range(10):
        kept.keep([], [ROW._replace(reads=b"%d" % number)])
    assert len(list(kept.results([b"key"]))) == store.MOST_OF_A_KEY


def test_what_is_used_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Store(tmp_path)
    kept.keep([], [ROW])
    monkeypatch.setattr("time.time", lambda: 10.0**10)
    assert list(kept.results([b"key"])) == [ROW]
    kept.keep([], [])
    kept.close()
    with sqlite3.connect(tmp_path / NAME) as database:
        assert database.execute("SELECT used FROM results").fetchall() == [(10**10,)]
    database.close()


def test_the_file_is_for_its_owner(tmp_path: Path) -> None:
    Store(tmp_path / "deep" / "cache").keep([], [ROW])
    assert (tmp_path / "deep" / "cache" / NAME).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "deep" / "cache" / "CACHEDIR.TAG").exists()


def test_a_folder_that_others_can_write_stays_as_it_is(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    Store(cache).keep([], [ROW])
    assert list(cache.iterdir()) == []


def test_nothing_is_made_to_read(tmp_path: Path) -> None:
    assert list(Store(tmp_path / "cache").results([b"key"])) == []
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    "text", [b"", b"[", b"[[], []]x", b"7", b"[" * 100_000, b'[[["a"]], []]', b"[[[]],[]]"]
)
def test_other_texts_are_nothing(text: bytes) -> None:
    assert codec.load(text) is None
    assert snapshot.load(text) == snapshot.Snapshot()


@pytest.mark.parametrize(
    ("system", "environment", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/caches"}, "/caches/streamlint"),
        ("linux", {"XDG_CACHE_HOME": "caches"}, "/home/me/.cache/streamlint"),
        ("linux", {}, "/home/me/.cache/streamlint"),
        ("darwin", {}, "/home/me/Library/Caches/streamlint"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/streamlint/cache"),
        ("win32", {}, "/home/me/AppData/Local/streamlint/cache"),
        ("linux", {folder.VARIABLE: "/mine"}, "/mine"),
    ],
)
def test_the_folder_is_the_users(
    monkeypatch: pytest.MonkeyPatch, system: str, environment: dict[str, str], expected: str
) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", folder.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setattr(sys, "platform", system)
    assert folder.default_folder() == Path(expected)


def test_all_of_a_report_is_kept() -> None:
    """A field that is added to what is reported is to be kept, too."""
    spans = [Span(f"{name}\udcff.py", 1, 2, 3, 4) for name in "abcd"]
    finding = Finding(
        code="SL101",
        name="name",
        message="message",
        help="help",
        confidence=Confidence.POSSIBLE,
        severity=Severity.ADVICE,
        primary=spans[0],
        label="label",
        function="function",
        related=(Related(spans[1], "there"),),
        fingerprint="0123",
        earlier=spans[2],
        follows=(("SL102", spans[3], None), ("SL103", spans[0], spans[1])),
        edge="edge",
        fork="fork",
        seen=Seen.BOTH,
        at_call=True,
        fixes=(Fix("title", (Edit(spans[3], "text"),), safe=True),),
        statement="statement",
    )
    left_out = LeftOut(path="p", function="f", what="w", count=2)
    numbers = Statistics(4, 5, 6, (left_out,))
    given = Report((finding,), (SourceError("p", 1, "m"),), 3, 2, numbers, frozenset({"p"}))
    assert codec.load(codec.dump(given)) == given
    for value in (finding, left_out, given.statistics, given, given.errors[0]):
        usual = [each.name for each in fields(value) if getattr(value, each.name) == each.default]
        assert usual in ([], ["evidence", "also"]), "a value of its own for each field"
