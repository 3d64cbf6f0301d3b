"""Pool of CUDA events for the record/wait pairs of ``Stream.wait_stream``."""
import contextlib
import threading
from collections import deque
from typing import Deque, Dict, Iterator, Optional

import torch


class CudaEventPool:
    def __init__(self, device: torch.device, size: int = 64):
        self.device = device
        self._lock = threading.Lock()
        self._free: Deque[torch.cuda.Event] = deque()
        with torch.cuda.device(device):
            for _ in range(size):
                event = torch.cuda.Event(enable_timing=False)
                event.record()
                self._free.append(event)

    @contextlib.contextmanager
    def borrow(self) -> Iterator[torch.cuda.Event]:
        with self._lock:
            event = self._free.popleft() if self._free else None
        if event is None:
            event = torch.cuda.Event(enable_timing=False)
        try:
            yield event
        finally:
            # a wait refers to the record before it, so the event can be used again at once
            with self._lock:
                self._free.append(event)


_POOLS: Dict[int, CudaEventPool] = {}


def wait_stream(waiter: torch.cuda.Stream, producer: torch.cuda.Stream) -> None:
    pool = _POOLS.get(producer.device_index)
    if pool is None or torch.cuda.is_current_stream_capturing():
        waiter.wait_stream(producer)
        return
    with pool.borrow() as event:
        event.record(producer)
        waiter.wait_event(event)


def install(device: torch.device, size: int = 64) -> None:
    _POOLS[torch.device(device).index] = CudaEventPool(device, size)


class TwoBatchOverlap:
    """Communication of one half of the batch next to the computation of the other half."""

    def __init__(self, layer, dispatch, device: torch.device):
        install(device, size=4)
        self.layer = layer
        self.dispatch = dispatch
        self.comm_stream = torch.cuda.Stream(device)

    def _communicate(self, hidden: torch.Tensor) -> torch.Tensor:
        current = torch.cuda.current_stream()
        wait_stream(self.comm_stream, current)
        with torch.cuda.stream(self.comm_stream):
            out = self.dispatch(hidden)
        hidden.record_stream(self.comm_stream)
        return out

    def _join(self, out: torch.Tensor) -> torch.Tensor:
        current = torch.cuda.current_stream()
        wait_stream(current, self.comm_stream)
        out.record_stream(current)
        return out

    @torch.inference_mode()
    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        first, second = hidden.chunk(2)
        pending: Optional[torch.Tensor] = self._communicate(first)
        second = self.layer(second)
        first = self._join(pending)
        pending = self._communicate(second)
        first = self.layer(first)
        second = self._join(pending)
        return torch.cat([first, second])
