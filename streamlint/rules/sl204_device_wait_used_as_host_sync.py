"""SL204 device-wait-used-as-host-sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.order.hb import Verdict
from streamlint.rules import pairs
from streamlint.rules.base import About, Judged, Note, Problem, Rule, quoted
from streamlint.trace import OpId, Wait
from streamlint.witness import ByValue

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(judged: Judged) -> Iterator[Problem]:
    """Host reads that come after a *stream's* wait for the very copy that they need.

    Not writes: a ring that is refilled too early has mostly made its consumer's stream wait, as it
    must, and lacks another wait.
    """
    for conflict in pairs.host_pairs(judged, reads=True):
        here = judged.seen_from(conflict.later, conflict.earlier)
        wait = _covering_wait(here, conflict.earlier, conflict.later)
        if wait is None:
            continue
        waiting = quoted(here.stream_name(wait.stream))
        yield Problem(
            later=conflict.later,
            earlier=conflict.earlier,
            buffer=conflict.buffer,
            message=(
                f"the host uses {pairs.subject(here, conflict)} "
                f"after a wait that holds back {waiting}, not the host"
            ),
            label="used by the host",
            help=f"make the host wait as well: synchronize {here.event_name(wait.event)} before this",
            notes=(*pairs.notes(here, conflict), Note(wait.at.span, f"only {waiting} waits here")),
            doubts=conflict.doubts,
            explains=frozenset({(conflict.earlier, conflict.later)}),
        )


def _covering_wait(judged: Judged, earlier: OpId, later: OpId) -> Wait | None:
    """A wait that the program wrote for an event: ``wait_stream`` nobody takes for a wait of the host."""
    for number in range(later - 1, earlier, -1):
        op = judged.op(OpId(number))
        if isinstance(op, Wait) and not judged.trace.events[op.event].implied:
            record = judged.hb.record_seen_by(OpId(number))
            if (
                record is not None
                and record > earlier
                and judged.hb.ordered(earlier, record).verdict is Verdict.YES
            ):
                return op
    return None


RULE = Rule(
    code="SL204",
    name="device-wait-used-as-host-sync",
    summary="`event.wait()` or `work.wait()` orders a stream, not the host, before a host access",
    severity=Severity.ERROR,
    about=About.CAUSE,
    check=check,
    witness=ByValue(),
    doc="""\
## What it does
Reports host code that uses the result of an asynchronous copy after a call that makes a *stream*
wait for that copy.

## Why is this bad?
`event.wait()` and `stream.wait_event(event)` queue a wait on a stream and return at once. The host
goes on and reads memory that is not yet written.

## Example
```python
host = scores.to("cpu", non_blocking=True)
done.record()
done.wait()                  # the current stream waits, the host does not
return host.tolist()
```

Use instead:
```python
host = scores.to("cpu", non_blocking=True)
done.record()
done.synchronize()
return host.tolist()
```

## Limits
Memory that an asynchronous collective writes, used before `work.wait()`, is SL602.

## Source
[torch.cuda.Event.wait](https://docs.pytorch.org/docs/stable/generated/torch.cuda.Event.html).
""",
)
