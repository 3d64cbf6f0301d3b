"""Streams, events and the host: who waits for whom."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, TypeAlias

from streamlint.confirm.doctor.axiom import (
    ORDERED,
    RETURNS,
    UNORDERED,
    WAITS,
    Axiom,
    Basis,
    Group,
)
from streamlint.confirm.doctor.lab import LEGACY, LEGACY_TOO, PER_THREAD, Lab, Race

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.confirm.doctor.axiom import Measure

    Maker: TypeAlias = Callable[[Lab], int]

_G, _M = Basis.GUARANTEED, Basis.MEASURED

# ----------------------------------------------------------------------------- streams


def legacy(lab: Lab) -> int:
    del lab
    return LEGACY


def per_thread(lab: Lab) -> int:
    del lab
    return PER_THREAD


def pair(first: Maker, second: Maker) -> Measure:
    def measure(lab: Lab) -> str:
        race = Race.of(lab)
        earlier, later = first(lab), second(lab)
        race.write(earlier)
        return race.read(later)

    return measure


def same_stream(lab: Lab) -> str:
    race = Race.of(lab)
    stream = lab.non_blocking()
    race.write(stream)
    return race.read(stream)


def two_names(lab: Lab) -> str:
    race = Race.of(lab)
    race.write(LEGACY_TOO)
    return race.read(LEGACY)


def legacy_between(lab: Lab) -> str:
    race, other = Race.of(lab), lab.device()
    first, second = lab.blocking(), lab.blocking()
    race.write(first)
    lab.fill(other, 0, LEGACY)
    return race.read(second)


def two_threads(lab: Lab) -> str:
    race = Race.of(lab)
    seen: list[str] = []

    def child() -> None:
        lab.driver.activate()
        seen.append(race.read(PER_THREAD))

    race.write(PER_THREAD)
    thread = threading.Thread(target=child)
    thread.start()
    thread.join()
    return seen[0]


def stream_ordered_allocation(lab: Lab) -> str:
    owner, user = lab.non_blocking(), lab.non_blocking()
    # The pool has memory already: growing it takes longer, and shows nothing about order.
    lab.call("cuMemFreeAsync", lab.made("cuMemAllocAsync", 4096, owner), owner)
    lab.synchronize()
    lab.hold(owner)
    block = lab.made("cuMemAllocAsync", 4096, owner)
    lab.fill(block, 0, user, 4096)
    seen = lab.overtakes(user)
    lab.let_go()
    lab.call("cuMemFreeAsync", block, owner)
    return seen


STREAMS: Final = Group(
    "Streams",
    (
        Axiom("two operations on one stream", ORDERED, _G, same_stream),
        Axiom("two non-blocking streams, no event", UNORDERED, _G, pair(Lab.non_blocking, Lab.non_blocking)),
        Axiom(
            "legacy default stream and a blocking stream",
            ORDERED,
            _G,
            pair(legacy, Lab.blocking),
            "legacy first",
        ),
        Axiom(
            "legacy default stream and a blocking stream",
            ORDERED,
            _G,
            pair(Lab.blocking, legacy),
            "legacy second",
        ),
        Axiom(
            "legacy default stream and a non-blocking stream",
            UNORDERED,
            _G,
            pair(legacy, Lab.non_blocking),
            "legacy first",
        ),
        Axiom(
            "legacy default stream and a non-blocking stream",
            UNORDERED,
            _G,
            pair(Lab.non_blocking, legacy),
            "legacy second",
        ),
        Axiom(
            "legacy default stream and a per-thread default stream",
            ORDERED,
            _G,
            pair(legacy, per_thread),
            "legacy first",
        ),
        Axiom(
            "legacy default stream and a per-thread default stream",
            ORDERED,
            _G,
            pair(per_thread, legacy),
            "legacy second",
        ),
        Axiom(
            "per-thread default stream and any created stream",
            UNORDERED,
            _G,
            pair(per_thread, Lab.blocking),
            "blocking",
        ),
        Axiom(
            "per-thread default stream and any created stream",
            UNORDERED,
            _G,
            pair(per_thread, Lab.non_blocking),
            "non-blocking",
        ),
        Axiom("two blocking streams", UNORDERED, _G, pair(Lab.blocking, Lab.blocking)),
        Axiom("two blocking streams, an operation on the legacy stream between", ORDERED, _G, legacy_between),
        Axiom("handles 0 and 1 of the legacy stream", ORDERED, _G, two_names),
        Axiom("per-thread default streams of two threads", UNORDERED, _G, two_threads),
        Axiom(
            "a stream-ordered allocation and a use on another stream",
            UNORDERED,
            _G,
            stream_ordered_allocation,
        ),
    ),
)

# ----------------------------------------------------------------------------- events


def recorded_after(lab: Lab) -> str:
    race = Race.of(lab)
    a, b = lab.non_blocking(), lab.non_blocking()
    race.write(a)
    lab.order(a, b)
    return race.read(b)


def recorded_before(lab: Lab) -> str:
    race = Race.of(lab)
    a, b = lab.non_blocking(), lab.non_blocking()
    event = lab.record(a)
    race.write(a)
    lab.wait(b, event)
    return race.read(b)


def never_recorded(lab: Lab) -> str:
    race = Race.of(lab)
    a, b = lab.non_blocking(), lab.non_blocking()
    race.write(a)
    lab.wait(b, lab.event())  # raises unless it reports success
    return race.read(b)


def recorded_again_after(lab: Lab) -> str:
    """``e.record(a); b.wait(e); e.record(idle)``: the wait still covers the work on ``a``."""
    race = Race.of(lab)
    a, b, idle = lab.non_blocking(), lab.non_blocking(), lab.non_blocking()
    race.write(a)
    event = lab.record(a)
    lab.wait(b, event)
    lab.record(idle, event)
    return race.read(b)


def recorded_later(lab: Lab) -> str:
    """``e.record(a); b.wait(e); work(a); e.record(a)``: the wait does not cover the work."""
    race = Race.of(lab)
    a, b = lab.non_blocking(), lab.non_blocking()
    event = lab.record(a)
    lab.wait(b, event)
    race.write(a)
    lab.record(a, event)
    return race.read(b)


def recorded_elsewhere(lab: Lab) -> str:
    race = Race.of(lab)
    a, b, idle = lab.non_blocking(), lab.non_blocking(), lab.non_blocking()
    race.write(a)
    event = lab.record(a)
    lab.record(idle, event)
    lab.wait(b, event)
    return race.read(b)


def destroyed(lab: Lab) -> str:
    race = Race.of(lab)
    a, b = lab.non_blocking(), lab.non_blocking()
    race.write(a)
    event = lab.made("cuEventCreate", 2)
    lab.record(a, event)
    lab.wait(b, event)
    lab.call("cuEventDestroy_v2", event)
    return race.read(b)


def transitive(lab: Lab) -> str:
    race = Race.of(lab)
    a, between, b = lab.non_blocking(), lab.non_blocking(), lab.non_blocking()
    race.write(a)
    lab.order(a, between)
    lab.order(between, b)
    return race.read(b)


def recorded_on_legacy(maker: Maker) -> Measure:
    def measure(lab: Lab) -> str:
        race = Race.of(lab)
        a, b = maker(lab), lab.non_blocking()
        race.write(a)
        lab.order(LEGACY, b)
        return race.read(b)

    return measure


def waits_on_legacy(lab: Lab) -> str:
    race = Race.of(lab)
    a, b = lab.non_blocking(), lab.blocking()
    race.write(a)
    lab.order(a, LEGACY)
    return race.read(b)


EVENTS: Final = Group(
    "Events",
    (
        Axiom("record after the work, then wait", ORDERED, _G, recorded_after, "work before the record"),
        Axiom("record after the work, then wait", UNORDERED, _G, recorded_before, "work after the record"),
        Axiom("wait on an event that was never recorded", UNORDERED, _G, never_recorded),
        Axiom(
            "the event is recorded again after the wait was issued",
            ORDERED,
            _G,
            recorded_again_after,
            "old record",
        ),
        Axiom(
            "the event is recorded again after the wait was issued",
            UNORDERED,
            _G,
            recorded_later,
            "new record",
        ),
        Axiom(
            "the event is recorded on another stream before the wait",
            UNORDERED,
            _G,
            recorded_elsewhere,
            "old record",
        ),
        Axiom("the event is destroyed after the wait was issued", ORDERED, _G, destroyed),
        Axiom("from one stream to a second to a third, by two events", ORDERED, _G, transitive),
        Axiom(
            "record on the legacy stream",
            ORDERED,
            _G,
            recorded_on_legacy(Lab.blocking),
            "work of a blocking stream",
        ),
        Axiom(
            "record on the legacy stream",
            UNORDERED,
            _G,
            recorded_on_legacy(Lab.non_blocking),
            "work of a non-blocking stream",
        ),
        Axiom("wait on the legacy stream", ORDERED, _G, waits_on_legacy, "later work of a blocking stream"),
    ),
)

# ----------------------------------------------------------------------------- the host


def synchronized(lab: Lab) -> str:
    race = Race.of(lab)
    a, b = lab.non_blocking(), lab.non_blocking()
    race.write_soon(a)
    lab.call("cuStreamSynchronize", a)
    return race.read(b)


def polled(lab: Lab) -> str:
    race = Race.of(lab)
    a, b = lab.non_blocking(), lab.non_blocking()
    race.write_soon(a)
    event = lab.record(a)
    while not lab.done(event):
        pass
    return race.read(b)


def queried_once(lab: Lab) -> str:
    race = Race.of(lab)
    a, b = lab.non_blocking(), lab.non_blocking()
    race.write(a)
    lab.code("cuStreamQuery", a)
    return race.read(b)


def synchronize_unrecorded(lab: Lab) -> str:
    event = lab.event()
    return lab.waits(lambda: lab.call("cuEventSynchronize", event), busy=lab.non_blocking())


def synchronize_legacy(maker: Maker) -> Measure:
    def measure(lab: Lab) -> str:
        return lab.waits(lambda: lab.call("cuStreamSynchronize", LEGACY), busy=maker(lab))

    return measure


def synchronize_idle(lab: Lab) -> str:
    idle = lab.blocking()
    return lab.waits(lambda: lab.call("cuStreamSynchronize", idle), busy=LEGACY)


def record_on_idle(lab: Lab) -> str:
    idle, event = lab.blocking(), lab.event()

    def call() -> None:
        lab.record(idle, event)
        lab.call("cuEventSynchronize", event)

    return lab.waits(call, busy=LEGACY)


def synchronize_device(lab: Lab) -> str:
    return lab.waits(lab.synchronize, busy=lab.non_blocking())


HOST: Final = Group(
    "The host",
    (
        Axiom("the host synchronizes, then queues work elsewhere", ORDERED, _G, synchronized),
        Axiom("query() until it answers yes", ORDERED, _G, polled),
        Axiom("one query() whose answer is ignored", UNORDERED, _M, queried_once),
        Axiom("synchronize an event that was never recorded", RETURNS, _G, synchronize_unrecorded),
        Axiom(
            "synchronize the legacy stream",
            WAITS,
            _G,
            synchronize_legacy(Lab.blocking),
            "a blocking stream busy",
        ),
        Axiom(
            "synchronize the legacy stream",
            RETURNS,
            _G,
            synchronize_legacy(Lab.non_blocking),
            "a non-blocking stream busy",
        ),
        Axiom(
            "synchronize an idle blocking stream, work on the legacy stream", RETURNS, _M, synchronize_idle
        ),
        Axiom("record an event on that idle stream, and synchronize it", WAITS, _M, record_on_idle),
        Axiom("device synchronize", WAITS, _G, synchronize_device, "this device busy"),
    ),
)
