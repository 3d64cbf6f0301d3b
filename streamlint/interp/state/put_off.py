"""What a path puts off until later code shows what it is, or runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import frozen
from streamlint.interp.state.values import Flavor
from streamlint.trace import Evidence

if TYPE_CHECKING:
    from streamlint import ir
    from streamlint.interp.state.frames import Frame
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import DeviceV, FuncV, HeapV, StreamV, SymV, Value
    from streamlint.models.schema import Lib
    from streamlint.source import Span
    from streamlint.trace import BufferId, DeviceId, LaneId, Mode


@frozen()
class Guess:
    """One operator whose operands are unknown: see ``interp/facts/guesses.py``."""

    op: int
    result: Symbol
    operands: tuple[Value, ...]
    flavor: Flavor = Flavor.TORCH
    kind: Evidence = Evidence.ASSUMED
    """How it is known that it is work."""
    name: str = ""
    """The first variable that held the result."""


@frozen()
class Bound:
    """An address that an object keeps for its later work, and what that does with it, if it is known."""

    address: Value
    mode: Mode | None
    at: Span
    call: int
    """The call from outside in which it was bound."""


@frozen()
class Applied:
    """A function that was applied, and is yet to be run in a backward pass."""

    backward: FuncV
    context: SymV
    stream: StreamV


@frozen()
class Saved:
    """What an operator keeps for the backward pass, where hooks of saved tensors have packed it."""

    buffer: BufferId
    unpack: Value
    packed: Value
    operator: int
    """The same for all that one operator keeps."""


@frozen()
class Pool:
    """``ThreadPoolExecutor(max_workers=1)`` does one thing after the other."""

    one_by_one: bool
    is_prepared: bool = False
    """Whether each thread calls a function first: ``initializer=torch.cuda.set_device``."""
    lanes: tuple[LaneId, ...] = ()
    """On which it does what it was given, in order."""
    as_of_processes: bool = False
    """Whether it has the methods of a pool of processes: ``ThreadPool(2).apply_async(f, (x,))``."""


@frozen(eq=False)
class ThreadBody:
    """What a thread calls, and how often it was woken by queues that it waits for.

    ``while True: save(q.get())`` takes, and then waits for what is put there next.
    """

    thread: HeapV
    target: Value
    args: list[Value]
    kwargs: dict[str, Value]
    wakes: int = 0
    told_by: tuple[tuple[int, str], ...] = ()
    """Objects, and their attributes with numbers for which it asks until they change."""


@frozen(eq=False)
class Feeder:
    """A loop of a thread that feeds queues, or is fed by some, after the passes that it has made."""

    loop: ir.For | ir.While
    source: Value
    """What it walks."""
    turn: int
    """The number of the next pass."""
    frames: tuple[Frame, ...]
    """The functions of the thread, the innermost with the loop, as the last pass left them ..."""
    calls: tuple[Span, ...]
    streams: tuple[tuple[tuple[Lib, DeviceId, LaneId], StreamV], ...]
    device: DeviceV
    """... and the streams and the device that were current."""
    fills: frozenset[int]
    queues: frozenset[int]
    """The queues into which it puts something, and all that it uses, by their numbers on the heap."""
    passes: int = 0
    """How many it has made because of others."""
