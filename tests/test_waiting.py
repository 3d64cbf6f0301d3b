"""Which file a worker gets next: of the folder that it was at, and the rest when nothing else is left."""

from __future__ import annotations

from pathlib import Path

from streamlint.run.waiting import Waiting

ROOT = Path("/tree")


def paths(*names: str) -> list[Path]:
    return [ROOT / name for name in names]


def test_a_worker_stays_in_its_folder() -> None:
    one, two, three, four = paths("a/b/c/deep/1.py", "a/b/d/2.py", "a/b/c/3.py", "4.py")
    waiting = Waiting.of([one, two, three, four], ROOT)
    assert len(waiting) == 4
    assert waiting.take(None, []) == one
    assert waiting.take(None, [one]) == two
    assert waiting.take(one, [two]) == three
    assert list(waiting) == [four]
    assert waiting.take(two, [three]) == four
    assert not waiting


def test_the_folder_of_another_worker_comes_last() -> None:
    one, two, three = paths("a/1.py", "a/2.py", "b/3.py")
    waiting = Waiting.of([one, two, three], ROOT)
    assert waiting.take(None, []) == one
    assert waiting.take(None, [one]) == three
    assert waiting.take(three, [one]) == two


def test_what_is_done_again_comes_when_nothing_else_is_left() -> None:
    one, two = paths("a/1.py", "b/2.py")
    waiting = Waiting.of([one, two], ROOT)
    assert waiting.take(None, []) == one
    waiting.put_last(one)
    assert list(waiting) == [two, one]
    assert waiting.take(one, []) == two
    assert waiting.take(two, []) == one
