"""Time and memory of happens-before and conflict search on large traces.

Run ``python -m benchmarks.bench_conflicts [OPS]`` in the repository root.
"""

from __future__ import annotations

import random
import sys
import time
import tracemalloc
from typing import TYPE_CHECKING

from streamlint.order.conflicts import conflicts
from streamlint.order.hb import HappensBefore
from streamlint.trace import (
    HostEffect,
    Interval,
    Mode,
    Space,
    StreamKind,
    Trace,
)
from tests.traces import Program, access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def pipeline(ops: int, streams: int, buffers: int, kinds: Iterable[StreamKind]) -> Trace:
    """Forks and joins: work on random streams, mostly handed on by events, synchronized at times."""
    pick = random.Random(0)  # noqa: S311
    p = Program()
    every = list(kinds)
    queues = [p.stream(every[i % len(every)]) for i in range(streams)]
    events = [p.event() for _ in range(2 * streams)]
    memory = [p.buffer() for _ in range(buffers)]
    while len(p.ops) < ops:
        source, target = pick.choice(queues), pick.choice(queues)
        event, shared = pick.choice(events), pick.choice(memory)
        p.launch(source, reads=pick.choice(memory), writes=shared)
        p.record(source, event)
        if pick.random() < 0.9:
            p.wait(target, event)
        p.launch(target, reads=shared)
        if pick.random() < 0.02:
            p.sync_device()
    return p.trace()


def callbacks(ops: int) -> Trace:
    """A callback after every copy, each a lane of its own."""
    p = Program()
    queues = [p.stream() for _ in range(4)]
    device, host = p.buffer(), [p.buffer(Space.PINNED) for _ in queues]
    while len(p.ops) < ops:
        for queue, target in zip(queues, host, strict=True):
            body = p.new_lane()
            p.copy(queue, device, target)
            p.callback(queue, body)
            p.host(reads=target, lane=body)
            p.callback_end(queue, body)
    return p.trace()


def blocking_copies(ops: int, streams: int) -> Trace:
    """Copies that only seem to block, round robin: every op may know all before it."""
    p = Program()
    queues = [p.stream() for _ in range(streams)]
    x, targets = p.buffer(), [p.buffer(Space.PAGEABLE) for _ in queues]
    while len(p.ops) < ops:
        i = len(p.ops) % streams
        p.copy(queues[i], x, targets[i], HostEffect.BLOCKS_OBSERVED)
    return p.trace()


def chunks(ops: int) -> Trace:
    """One buffer written in many disjoint chunks, never synchronized: the frontier's worst case."""
    p = Program()
    queues = [p.stream() for _ in range(8)]
    x = p.buffer()
    for i in range(ops):
        p.launch(queues[i % 8], access(x, Mode.WRITE, (Interval(i, i + 1),)))
    return p.trace()


def legacy_syncs(ops: int, streams: int) -> Trace:
    p = Program()
    queues = [p.stream(StreamKind.BLOCKING) for _ in range(streams)]
    legacy = p.stream(StreamKind.LEGACY)
    while len(p.ops) < ops:
        p.launch(queues[len(p.ops) % streams])
        p.sync_stream(legacy)
        p.launch(legacy)
    return p.trace()


def measure(name: str, make: Callable[[], Trace]) -> None:
    trace = make()
    start = time.perf_counter()
    hb = HappensBefore(trace)
    built = time.perf_counter()
    count = sum(1 for _ in conflicts(trace, hb))
    done = time.perf_counter()
    tracemalloc.start()
    HappensBefore(trace)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    print(
        f"{name:32} {len(trace.ops):8} ops  order {built - start:6.2f} s  conflicts {done - built:6.2f} s"
        f" ({count} found)  {peak:6.0f} MiB"
    )


def main() -> None:
    ops = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    mixed = (StreamKind.LEGACY, StreamKind.BLOCKING, StreamKind.CURRENT, StreamKind.NON_BLOCKING)
    side = (StreamKind.NON_BLOCKING,)
    outside = (StreamKind.UNKNOWN,)
    measure("8 streams", lambda: pipeline(ops, 8, 1000, side))
    measure("8 streams of all kinds", lambda: pipeline(ops, 8, 1000, mixed))
    measure("8 streams from outside", lambda: pipeline(ops, 8, 1000, outside))
    measure("300 streams", lambda: pipeline(ops, 300, 1000, side))
    measure("300 streams of all kinds", lambda: pipeline(ops, 300, 1000, mixed))
    measure("300 blocking, legacy syncs", lambda: legacy_syncs(ops, 300))
    measure("300 streams, copies that block", lambda: blocking_copies(ops, 300))
    measure("callbacks", lambda: callbacks(ops))
    measure("chunks", lambda: chunks(ops))


if __name__ == "__main__":
    main()
