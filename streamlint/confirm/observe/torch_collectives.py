"""Collectives of PyTorch's process groups, which are operators of ``c10d``: on which stream they work.

``all_reduce(x, async_op=True)`` has a stream of the group wait for the current one, queues its kernel there,
and records an event behind it, for which ``work.wait()`` makes the current stream wait. PyTorch tells of
these waits and events. So what a collective touches is told of right behind the first wait that it makes by
itself, on the stream that waits. One that makes none runs on the current stream (``async_op=False``, since
PyTorch 2.8).
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

import torch

from streamlint.trace import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint.confirm.observe.events import Touched, Work
    from streamlint.confirm.observe.recorder import Recorder
    from streamlint.confirm.observe.torch_ops import Operator
    from streamlint.trace import EventId, StreamId

    Touch = Callable[[Any, Mode, int, list[Touched]], None]


class Collectives:
    """Those that a thread is starting."""

    def __init__(self, recorder: Recorder, touch: Touch, current: Callable[[int], StreamId]) -> None:
        self._recorder = recorder
        self._touch = touch
        self._current = current
        self._starting: dict[int, tuple[str, list[Touched]]] = {}
        """By thread: what it starts, and what that touches."""
        self._started: dict[int, list[Work]] = {}
        """By thread: what it has started, until an event is recorded behind that. A batch has one for all."""

    def run(self, operator: Operator, call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        touches: list[Touched] = []
        device = -1
        for number, mode in operator.positional:
            for tensor in _tensors(args[number]) if number < len(args) else ():
                self._touch(tensor, mode, number, touches)
                device = tensor.get_device() if device < 0 else device
        thread = get_ident()
        self._starting[thread] = operator.name, touches
        try:
            result = call(*args, **kwargs)
        finally:
            alone = self._starting.pop(thread, None) is not None
        if alone and device >= 0 and _is_synchronous(operator, args):
            self._recorder.work(self._current(device), operator.name, touches)
        if operator.fills_result:
            used = {touch[0] for touch in touches}
            made: list[Touched] = []
            for tensor in _tensors(result):
                self._touch(tensor, Mode.WRITE, -1, made)
            touches += [touch for touch in made if touch[0] not in used]
        return result

    def waited(self, stream: StreamId) -> None:
        """A stream was made to wait for an event, perhaps by the collective that this thread starts."""
        name, touches = self._starting.pop(get_ident(), ("", []))
        if name:
            work = self._recorder.work(stream, name, touches)
            self._started.setdefault(get_ident(), []).append(work)

    def recorded(self, event: EventId, stream: StreamId) -> None:
        """An event was recorded, perhaps that of a handle."""
        started = self._started.get(get_ident())
        if started and started[-1].stream == stream:
            for work in self._started.pop(get_ident()):
                work.completes = event


def _is_synchronous(operator: Operator, args: tuple[Any, ...]) -> bool:
    return 0 <= operator.flag < len(args) and not args[operator.flag]


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """Lists may hold a list for each device: ``allgather_(Tensor[][] output_tensors, ...)``."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
