"""SL406 used-after-last-reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.order.hb import Verdict
from streamlint.rules import lifetimes
from streamlint.rules.base import Judged, Note, Problem, Rule, on, quoted
from streamlint.trace import FreeKind, OpId
from streamlint.witness import ByReuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.trace import BufferId, Doubt, Free


def check(judged: Judged) -> Iterator[Problem]:
    """The first use by an address after each drop; a second drop of the same memory tells nothing new."""
    seen: set[OpId] = set()
    for number, free in lifetimes.frees(judged, FreeKind.DROPPED):
        use = next(iter(judged.uses(free.buffer, first=number + 1)), None)
        if free.known_by_address and use is not None and use not in seen:
            problem = _judge(judged, number, free, use)
            if problem is not None:
                seen.add(use)
                yield problem


def _judge(judged: Judged, number: OpId, free: Free, use: OpId) -> Problem | None:
    given = _given_away(judged, number, free, use)
    if given is None:
        return None
    alloc, doubts = given
    op = judged.op(use)
    name = quoted(judged.buffer_name(free.buffer))
    return Problem(
        later=use,
        earlier=number,
        buffer=free.buffer,
        message=f"the memory of {name} is used {on(judged, op)} after the last reference to it was dropped",
        label="uses memory that may be somebody else's by now",
        help=f"keep a reference to {name} until this is queued: an address holds nothing",
        notes=(
            Note(free.at.span, f"no reference to {name} is left after this"),
            Note(judged.op(alloc).at.span, "this allocation may get the same memory"),
        ),
        doubts=free.doubts | doubts | lifetimes.use_doubts(op, free.buffer),
    )


def _given_away(judged: Judged, free: OpId, drop: Free, use: OpId) -> tuple[OpId, frozenset[Doubt]] | None:
    """An allocation that may get the block before the use, and whose own contents meet those in use.

    Who gets it and writes it only after the use, in the order of the streams, does no harm.
    """
    buffer = judged.trace.buffers[drop.buffer]
    best: tuple[OpId, frozenset[Doubt]] | None = None
    for position in range(free + 1, use):
        number = OpId(position)
        made = lifetimes.allocated(judged, number, buffer.alloc_stream)
        if made is None or made.id == buffer.id or made.home != buffer.home:
            continue
        doubts = _overwrites(judged, made.id, number, use)
        if doubts is not None and (best is None or len(doubts) < len(best[1])):
            best = number, doubts
    return best


def _overwrites(judged: Judged, made: BufferId, since: OpId, use: OpId) -> frozenset[Doubt] | None:
    """The doubts about a write of other contents that does not surely come after the use."""
    found: list[frozenset[Doubt]] = []
    for number in judged.touching(made, since):
        op = judged.op(number)
        writes = [a for a in getattr(op, "accesses", ()) if a.buffer == made and a.mode.writes]
        if writes and (number <= use or judged.hb.ordered(use, number).verdict is not Verdict.YES):
            found.append(op.doubts.union(*(access.doubts for access in writes)))
    return min(found, key=len, default=None)


RULE = Rule(
    code="SL406",
    name="used-after-last-reference",
    summary="memory is used by its address after the last reference to it was dropped",
    severity=Severity.ERROR,
    check=check,
    witness=ByReuse(stale=True),
    doc="""\
## What it does
Reports work that gets the address of a tensor or an array to which nothing refers any more, where the
allocator has handed out memory since that is written before the work is done, or by it.

## Why is this bad?
`x.data_ptr()` is a number: it holds nothing. A temporary goes back to its allocator as soon as the
statement is over, and the next allocation on its stream gets the same block. That all of it happens on
one stream does not help: the block belongs to two at once.

## Example
```python
address = (x * 2).data_ptr()            # the product is gone behind this line
out = torch.empty_like(x)               # and may be handed out here
launch(kernel, address, out.data_ptr(), stream)
```

Use instead:
```python
doubled = x * 2
out = torch.empty_like(x)
launch(kernel, doubled.data_ptr(), out.data_ptr(), stream)
```

## Limits
Without an allocation in between, on the stream that owned the memory or from its pool, nothing is
reported. Memory that unresolved code received may still be referenced: then the finding is only
`possible`. The sizes are not compared.

## Source
[torch.Tensor.data_ptr](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.data_ptr.html),
[CUDA semantics, memory management](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management):
the caching allocator hands freed memory out again without waiting for the device.
""",
)
