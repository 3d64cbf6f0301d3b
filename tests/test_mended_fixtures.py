"""Fixes hold what they promise on all fixtures."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.expectations import FIXTURES, fixture_files
from tests.mending import Mending, mend, table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlint.finding import Report


@pytest.fixture(scope="module")
def mended(analyzed: Callable[[Path], Report], kept: Path) -> Callable[[Path], Mending]:
    """A fixture, mended once, in whichever process; what is ``left`` in it is not told."""

    def once(file: Path) -> Mending:
        place = kept / f"mended {file.parent.name} {file.stem}"
        if not place.exists():
            made = mend(file, analyzed(file))
            told = {name: getattr(made, name) for name in ("text", "faults", *COUNTED)}
            written = place.with_suffix(f".{os.getpid()}")
            written.write_text(json.dumps(told), encoding="utf-8")
            written.replace(place)
        told = json.loads(place.read_text(encoding="utf-8"))
        found, fixed, safe = (Counter[str](told[name]) for name in COUNTED)
        return Mending(file, told["text"], found, fixed, safe, faults=told["faults"])

    return once


COUNTED = ("found", "fixed", "safe")

KNOWN = {
    # The caller waits now; callers that nobody sees could still leave the wait out: certain was said before.
    "torch/sl101_lists_of_modules": {
        "still there: ('SL101', 'Ahead.forward', "
        "'`self.full` is read on the current stream while `lane` may still be writing it')",
    },
    # Two callers make this line wrong, and the first alone is shown: the second is mended in the next round.
    "torch/sl101_guessed_objects": {
        "still there: ('SL101', 'Slot.sum', "
        "'`self.memory` is read on the current stream while `side` may still be writing it')",
    },
    # What a generator that is stepped has queued is not seen behind the wait: it is tried, and not offered.
    "torch/sl101_stepped_generators": {
        "still there: ('SL102', 'Layers.forward', "
        "'`page` is overwritten on the current stream while `self.mover.side` may still be reading it')",
    },
    # Two mistakes in one place: who waits now still lets the batch go too early, told of other calls.
    "torch/sl101_heirs_of_libraries": {
        "new: fixtures/torch/sl101_heirs_of_libraries.py:39:9 "
        "('SL401', 'LoadedAhead.__iter__, then __next__, then __next__', "
        "'`batch` may still be in use on the current stream when it goes back to the allocator of "
        "`self.up`')",
    },
    # The wait comes by events of two places: a record in front of it is tried, and not offered.
    "torch/sl103_put_away": {
        "new: fixtures/torch/sl103_put_away.py:57:21 ('SL103', 'UnrecordedLookups.look_up', "
        "'nothing records what is put into `events` here: waits for it order nothing')",
    },
    # A thread goes on with a pass of its loop where others give it something: a wait in front of what that
    # pass writes is tried, and not offered.
    "torch/sl202_threads_that_count": {
        "still there: ('SL202', 'Unchecked.work', "
        "'the host overwrites `self.hosts[slot]` while `self.stream` may still be reading it')",
    },
    # Memory that one method lets go, another one may get: the wait would stand there, and is not offered.
    "torch/sl101_streams_by_annotation": {
        "still there: ('SL401', 'Lane.ones', "
        "'`out` may still be in use on the current stream when it goes back to the allocator of "
        "`self.stream`')",
    },
}


def named(file: Path) -> str:
    return f"{file.parent.name}/{file.stem}"


def test_what_is_known_is_known_of_fixtures() -> None:
    assert KNOWN.keys() <= set(map(named, fixture_files()))


@pytest.mark.parametrize("file", fixture_files(), ids=named)
def test_each_fix_mends_its_finding_and_brings_no_other(
    file: Path, mended: Callable[[Path], Mending]
) -> None:
    assert set(mended(file).faults) == KNOWN.get(named(file), set())


def test_nine_of_ten_wrong_fixtures_have_a_fix(mended: Callable[[Path], Mending]) -> None:
    """Advice aside: most of it is about speed, which no line that is added mends.

    Nor does one keep what a launch overwrites (SL509): the expression itself has to be a copy.
    """
    every = [mended(file) for file in fixture_files()]
    counted = [
        sum(
            number
            for each in every
            for code, number in getattr(each, name).items()
            if "SL9" not in code and code != "SL509"
        )
        for name in ("found", "fixed")
    ]
    assert counted[1] >= 0.9 * counted[0], table(every)


def test_no_stream_is_recorded_for_pinned_memory(mended: Callable[[Path], Mending]) -> None:
    """``record_stream`` of a tensor on the host raises an error."""
    found = mended(FIXTURES / "torch" / "sl401_pinned_pool.py")
    assert found.fixed["SL401"]
    assert not found.faults
    assert found.text.count("record_stream") == found.file.read_text(encoding="utf-8").count("record_stream")


def test_builders_of_graphs_join_and_are_not_made_to_wait(mended: Callable[[Path], Mending]) -> None:
    """``GraphBuilder`` of cuda.core has no ``wait``: what streams have is no fix in its capture."""
    (file,) = (file for file in fixture_files() if file.stem == "sl502_unjoined_branches")
    of_builders = mended(file)
    assert (of_builders.found["SL502"], of_builders.fixed["SL502"]) == (2, 0)
