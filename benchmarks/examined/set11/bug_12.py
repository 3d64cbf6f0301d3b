"""RPC agent: outgoing device tensors are staged to pinned memory on streams of the agent."""
import itertools
from collections import deque
from dataclasses import dataclass, field
from typing import Callable, Deque, List

import torch


@dataclass
class Message:
    method: str
    tensors: List[torch.Tensor] = field(default_factory=list)


@dataclass
class PendingWrite:
    to: str
    method: str
    staged: List[torch.Tensor]
    event: torch.cuda.Event


class TensorPipeAgent:
    def __init__(self, transport, device: torch.device, num_streams: int = 4):
        self.transport = transport
        self.device = device
        self._streams = itertools.cycle([torch.cuda.Stream(device) for _ in range(num_streams)])
        self._pending: Deque[PendingWrite] = deque()

    def send(self, to: str, message: Message) -> None:
        stream = next(self._streams)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        staged = self._stage(message, stream)
        self._pending.append(PendingWrite(to, message.method, staged, stream.record_event()))

    def _stage(self, message: Message, stream: torch.cuda.Stream) -> List[torch.Tensor]:
        staged = []
        with torch.cuda.stream(stream):
            for tensor in message.tensors:
                host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
                host.copy_(tensor, non_blocking=True)
                staged.append(host)
        return staged

    def poll(self) -> int:
        sent = 0
        while self._pending and self._pending[0].event.query():
            write = self._pending.popleft()
            self.transport.write(write.to, write.method, [t.numpy() for t in write.staged])
            sent += 1
        return sent

    def flush(self) -> None:
        for write in self._pending:
            write.event.synchronize()
        self.poll()


class RemoteEmbeddingTrainer:
    """Dense half of a model whose embedding tables live on a parameter server."""

    def __init__(self, agent: TensorPipeAgent, dense: torch.nn.Module, server: str):
        self.agent = agent
        self.dense = dense
        self.server = server

    def push_gradients(self, embeddings: torch.Tensor, scale: float) -> None:
        grad = embeddings.grad * scale
        self.agent.send(self.server, Message("apply_grad", [grad]))

    def train_step(self, lookup: Callable[[], torch.Tensor], target: torch.Tensor, scale: float) -> torch.Tensor:
        embeddings = lookup().requires_grad_(True)
        loss = torch.nn.functional.mse_loss(self.dense(embeddings), target)
        loss.backward()
        self.push_gradients(embeddings, scale)
        self.agent.poll()
        return loss.detach()
