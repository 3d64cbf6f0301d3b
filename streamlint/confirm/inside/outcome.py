"""Where gates stand in a run, and what is told of a later operation that came first."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from streamlint.confirm.gpu.driver import DriverError
from streamlint.confirm.gpu.gate import PTX_NAME
from streamlint.confirm.gpu.handles import current_streams
from streamlint.confirm.inside.cupti import CuptiUnavailableError
from streamlint.confirm.inside.hold import Hold
from streamlint.confirm.inside.lookout import LONGEST_S
from streamlint.confirm.inside.order import Memory
from streamlint.confirm.inside.probe import Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.confirm.gpu.driver import Driver
    from streamlint.confirm.gpu.gate import Gate
    from streamlint.confirm.inside.lookout import Lookout, Statement
    from streamlint.confirm.inside.turns import Later, Order, Turn


def look_out(
    make: Callable[[Driver, Gate, float], Lookout],
    driver: Driver,
    gate: Gate,
    order: Order,
    loading: list[tuple[int, int]],
) -> tuple[Lookout | None, str]:
    """At the driver's calls, if they can be seen; and where gates stand, in words.

    ``loading``: the turns that have begun and not ended.
    """
    if order.hold is Hold.STATEMENT:
        return None, "before statements, since no driver call of the earlier one was seen"
    try:
        lookout = make(driver, gate, order.delay_ms / 1e3)
    except CuptiUnavailableError as error:
        return None, f"before statements: {error}"
    if order.is_patient:
        gate.limit_ms = LONGEST_S * 1e3
    if order.images is not None and order.mode is Mode.REFERENCE:
        lookout.keep_images(order.images, loading)
    if order.mode is Mode.ORDER:
        lookout.memory = Memory(driver, driver.new_stream())
    if order.measures:
        lookout.measure()
    return lookout, "at driver calls"


def of_earlier(statement: Statement) -> dict[str, Any]:
    """What is told of an earlier statement that has ended."""
    if statement.streams or statement.unseen:
        return {"event": "held"} if statement.streams else {"event": "nothing"}
    return {"event": "other", "hold": Hold.STATEMENT.value}


def measured(lookout: Lookout, turn: Turn, later: Later) -> dict[str, Any]:
    """When the gate and both operations began and ended, on the device and on the host; that is idle now."""
    if lookout.activity is None or turn.queued is None or later.queued is None:
        return {"event": "nothing"}
    found: list[tuple[str, str, str, int, int]] = []
    records = lookout.activity.records()
    gates = [one for one in records if one.name == PTX_NAME]
    work = [one for one in records if one.name != PTX_NAME]
    for part, statement in (("earlier", turn.queued), ("later", later.queued)):
        begun, ended = statement.host
        found.append((part, "host", "", begun, ended))
        found += [
            (part, f"stream {one.stream}", one.name, one.start, one.end)
            for one in work
            if one.correlation in statement.calls
        ]
    first = turn.queued.host[0]
    found += [("gate", f"stream {one.stream}", "", one.start, one.end) for one in gates if one.end > first]
    return {"event": "measured", "finding": turn.finding, "turn": turn.number, "spans": found}


def overtakes(driver: Driver | None, gate: Gate | None, later: Later, limit_s: float) -> bool:
    """Whether the later operation is done while the earlier one is still held back."""
    assert driver is not None
    assert gate is not None
    queued = later.queued
    limit = time.monotonic() + limit_s
    while time.monotonic() < limit and gate.closed:
        if queued is not None and (queued.ends or not (queued.streams or queued.unseen)):
            # What has queued nothing is over: the host has read or written by itself.
            done = all(driver.done(end) for end in queued.ends)
        else:
            done = all(driver.idle(stream) for stream in later.streams or current_streams())
        if done:
            return gate.closed
    return False


def try_orders(lookout: Lookout, turn: Turn, later: Later, emit: Callable[[dict[str, Any]], None]) -> None:
    """Tell whether the two operations commute, on the memory that the first one found."""
    operations = later.queued.operations if later.queued is not None else []
    if lookout.memory is None:
        return
    with suppress(DriverError):
        conflict = lookout.memory.conflict(turn.operations, operations)
        if conflict is not None:
            place = {"finding": turn.finding, "turn": turn.number}
            emit({"event": "conflict", **place, "conflict": asdict(conflict)})
