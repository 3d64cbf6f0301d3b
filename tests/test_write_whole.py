"""Output files are written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from streamlint.files import write_whole


def test_a_new_file_is_as_readable_as_any_other(tmp_path: Path) -> None:
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    plain.touch()
    write_whole(ours, "é\udcff\n")
    assert ours.read_bytes() == "é\\udcff\n".encode()
    assert stat.S_IMODE(ours.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    assert sorted(tmp_path.iterdir()) == [ours, plain]


def test_an_old_file_keeps_its_rights_and_a_link_stays_one(tmp_path: Path) -> None:
    old, link = tmp_path / "old", tmp_path / "link"
    old.write_text("before", "utf-8")
    old.chmod(0o640)
    link.symlink_to(old)
    write_whole(link, "after")
    assert link.is_symlink()
    assert old.read_text("utf-8") == "after"
    assert stat.S_IMODE(old.stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_was_there_stays_until_all_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    old = tmp_path / "old"
    old.write_text("before", "utf-8")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(type(error)):
        write_whole(old, "after")
    assert list(tmp_path.iterdir()) == [old]
    assert old.read_text("utf-8") == "before"


def test_a_pipe_or_device_is_written_to_as_it_is(tmp_path: Path) -> None:
    write_whole(Path(os.devnull), "anything")
    assert not Path(os.devnull).is_file()
