"""Asynchronous activation hand-over between pipeline ranks with a workspace cache."""
import os
from collections import defaultdict
from typing import DefaultDict, Dict, List, Tuple

import torch
import torch.distributed as dist
import torch.nn as nn

Key = Tuple[Tuple[int, ...], torch.dtype]


class WorkspaceCache:
    """Keeps device workspaces alive between micro batches."""

    def __init__(self, device: torch.device):
        self.device = device
        self._idle: DefaultDict[Key, List[torch.Tensor]] = defaultdict(list)
        self._busy: Dict[int, Tuple[Key, torch.Tensor]] = {}

    def acquire(self, shape: Tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        key = (tuple(shape), dtype)
        idle = self._idle[key]
        ws = idle.pop() if idle else torch.empty(shape, dtype=dtype, device=self.device)
        self._busy[ws.data_ptr()] = (key, ws)
        return ws

    def release(self, ws: torch.Tensor) -> None:
        key, owned = self._busy.pop(ws.data_ptr())
        self._idle[key].append(owned)


class StageSender:
    def __init__(self, next_rank: int, cache: WorkspaceCache):
        self.next_rank = next_rank
        self.cache = cache
        self.stream = torch.cuda.Stream()
        self.ready = torch.cuda.Event()

    def send(self, activation: torch.Tensor) -> None:
        self.ready.record()
        with torch.cuda.stream(self.stream):
            self.ready.wait()
            dist.send(activation, dst=self.next_rank)
            self.cache.release(activation)

    def flush(self) -> None:
        torch.cuda.current_stream().wait_stream(self.stream)


class FirstStage:
    def __init__(self, hidden: int, layers: int, device: torch.device):
        self.cache = WorkspaceCache(device)
        self.norm = nn.LayerNorm(hidden).to(device)
        self.weights = [torch.randn(hidden, hidden, device=device) * 0.01 for _ in range(layers)]
        self.sender = StageSender(dist.get_rank() + 1, self.cache)

    @torch.inference_mode()
    def run(self, tokens: torch.Tensor) -> None:
        out = self.cache.acquire(tuple(tokens.shape), tokens.dtype)
        h = self.norm(tokens)
        for w in self.weights[:-1]:
            h = torch.relu(h @ w)
        torch.matmul(h, self.weights[-1], out=out)
        self.sender.send(out)


class LastStage:
    def __init__(self, hidden: int, device: torch.device):
        self.head = nn.Linear(hidden, 1).to(device)
        self.inbox = torch.empty(4096, hidden, device=device)

    @torch.inference_mode()
    def run(self) -> torch.Tensor:
        dist.recv(self.inbox, src=dist.get_rank() - 1)
        return self.head(self.inbox).mean()


def main() -> None:
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    device = torch.device("cuda", local)
    dist.init_process_group("nccl")
    hidden, micro_batches = 4096, 32
    if dist.get_rank() == 0:
        stage = FirstStage(hidden, 12, device)
        for _ in range(micro_batches):
            stage.run(torch.randn(4096, hidden, device=device))
        stage.sender.flush()
    elif dist.get_rank() == 1:
        last = LastStage(hidden, device)
        scores = [last.run() for _ in range(micro_batches)]
        print(torch.stack(scores).tolist())
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
