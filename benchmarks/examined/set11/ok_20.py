"""Asynchronous point-to-point transfers between the tasks of a compiled actor graph."""
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional

import torch
import torch.distributed as dist


class GPUFuture:
    """A value that is ready once the work enqueued so far on ``stream`` is over."""

    def __init__(self, value: Any, stream: Optional[torch.cuda.Stream] = None):
        self._value = value
        self._event = torch.cuda.Event()
        self._event.record(stream or torch.cuda.current_stream())

    def wait(self) -> Any:
        torch.cuda.current_stream().wait_event(self._event)
        return self._value


class NcclGroup:
    def __init__(self, group: dist.ProcessGroup, device: torch.device):
        self.group = group
        self.device = device
        self.send_stream = torch.cuda.Stream(device)
        self.recv_stream = torch.cuda.Stream(device)

    def send(self, value: torch.Tensor, peer_rank: int) -> None:
        value.record_stream(self.send_stream)
        with torch.cuda.stream(self.send_stream):
            dist.send(value, dst=peer_rank, group=self.group)

    def recv(self, shape, dtype: torch.dtype, peer_rank: int) -> torch.Tensor:
        with torch.cuda.stream(self.recv_stream):
            buf = torch.empty(shape, dtype=dtype, device=self.device)
            dist.recv(buf, src=peer_rank, group=self.group)
        return buf


@dataclass
class TaskSpec:
    method: Callable[..., torch.Tensor]
    shape: tuple
    dtype: torch.dtype
    recv_from: Optional[int]
    send_to: Optional[int]


class ExecutableTask:
    """READ, COMPUTE and WRITE of one task; the three can belong to different iterations."""

    def __init__(self, spec: TaskSpec, group: NcclGroup):
        self.spec = spec
        self.group = group
        self._future: Optional[GPUFuture] = None

    def read(self, local_input: Optional[torch.Tensor]) -> None:
        if self.spec.recv_from is None:
            self._future = GPUFuture(local_input)
            return
        buf = self.group.recv(self.spec.shape, self.spec.dtype, self.spec.recv_from)
        self._future = GPUFuture(buf, self.group.recv_stream)

    def compute(self) -> None:
        value = self._future.wait()
        if self.spec.recv_from is not None:
            value.record_stream(torch.cuda.current_stream())
        self._future = GPUFuture(self.spec.method(value))

    def write(self) -> Optional[GPUFuture]:
        future, self._future = self._future, None
        if self.spec.send_to is None:
            return future
        with torch.cuda.stream(self.group.send_stream):
            value = future.wait()
        self.group.send(value, self.spec.send_to)
        return None


class ActorLoop:
    def __init__(self, tasks: List[ExecutableTask]):
        self.tasks = tasks

    @torch.inference_mode()
    def run(self, feeds: List[Dict[int, torch.Tensor]]) -> List[torch.Tensor]:
        outputs = []
        for feed in feeds:
            for index, task in enumerate(self.tasks):
                task.read(feed.get(index))
                task.compute()
                future = task.write()
                if future is not None:
                    outputs.append(future.wait())
        return outputs
