"""What a run of a whole program tells of its turns: events, each a line of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from streamlint.confirm.inside.places import process_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streamlint.confirm.gpu.driver import Driver
    from streamlint.confirm.inside.sight import Sight
    from streamlint.confirm.inside.turns import Stop, Turn
    from streamlint.confirm.terms import CudaError


class Telling:
    """Events of one process."""

    def __init__(self, emit: Callable[[dict[str, Any]], None]) -> None:
        self.emit = emit
        self._said: set[str] = set()

    def once(self, event: dict[str, Any]) -> None:
        """Say something once."""
        if (key := json.dumps(event)) not in self._said:
            self._said.add(key)
            self.emit(event)

    def errors(self, findings: Iterable[int], errors: list[CudaError]) -> None:
        for finding in findings:
            for error in errors:
                self.once({"event": "error", "finding": finding, "error": asdict(error)})

    def seen(self, turn: Turn, sights: list[Sight], stop: Stop, driver: Driver | None) -> None:
        """The contents of what both operations touched; the device is idle."""
        leaves: list[tuple[str, str]] = []
        for sight in dict.fromkeys([*turn.sights, *sights]):
            leaves += sight.leaves(driver)
        place = {"finding": turn.finding, "turn": turn.number, "process": process_name()}
        self.emit({"event": "seen", **place, "stop": stop.value, "leaves": leaves})
