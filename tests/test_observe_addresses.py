"""Blocks are found by any address in them, however many come and go before somebody asks."""

from __future__ import annotations

import random

from streamlint.confirm.observe.addresses import Addresses
from streamlint.confirm.observe.events import Block
from streamlint.trace import BufferId, Space


def block(start: int, size: int) -> Block:
    return Block(BufferId(start), start, size, Space.DEVICE, "0", None, None)


def test_random_births_and_deaths_agree_with_a_plain_search() -> None:
    draw = random.Random(7)  # noqa: S311
    addresses, alive = Addresses(), dict[int, Block]()
    for _ in range(20_000):
        start = draw.randrange(400) * 16
        match draw.randrange(5):
            case 0 | 1:
                made = block(start, draw.choice([8, 16]))
                addresses.enter(made)
                alive[start] = made
            case 2 if start in alive:
                addresses.forget(alive.pop(start))
            case 3 if start in alive:
                # An older block of the address is not the one that is alive.
                addresses.forget(block(start, 8))
            case _:
                asked = start + draw.randrange(16)
                held = alive.get(start)
                expected = held if held is not None and asked < start + held.size else None
                assert addresses.find(asked) is expected


def test_many_blocks_that_nobody_asks_for_leave_no_trace() -> None:
    addresses = Addresses()
    for number in range(50_000):
        made = block(number * 16, 16)
        addresses.enter(made)
        addresses.forget(made)
    kept = block(7, 9)
    addresses.enter(kept)
    assert addresses.find(9) is kept
    assert len(addresses._starts) + len(addresses._fresh) < 10_000
