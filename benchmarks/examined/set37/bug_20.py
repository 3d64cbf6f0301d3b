"""KV blocks written by a forward pass are offloaded to page-locked memory by a connector worker."""
import queue
import threading
from typing import Callable, Dict, List, Optional

import torch
from torch import nn


class ForwardPassCallback:
    """Registered by a connector; the event marks the end of the forward pass on its stream."""

    def __init__(self, notify: Callable[[List[int]], None]):
        self.event = torch.cuda.Event()
        self.notify = notify


class OffloadWorker(threading.Thread):
    def __init__(self, kv: torch.Tensor, host_blocks: int):
        super().__init__(daemon=True)
        self.kv = kv
        self.device = kv.device
        self.host = torch.empty((host_blocks, *kv.shape[1:]), dtype=kv.dtype, pin_memory=True)
        self.stream = torch.cuda.Stream(kv.device)
        self.jobs: "queue.Queue[Optional[List[int]]]" = queue.Queue()
        self.table: Dict[int, int] = {}
        self._next = 0

    def run(self) -> None:
        torch.cuda.set_device(self.device)
        copied = torch.cuda.Event()
        while True:
            blocks = self.jobs.get()
            if blocks is None:
                return
            rows = []
            with torch.cuda.stream(self.stream):
                for block in blocks:
                    row = self._next % self.host.shape[0]
                    self._next += 1
                    self.host[row].copy_(self.kv[block], non_blocking=True)
                    rows.append(row)
                copied.record(self.stream)
            copied.synchronize()
            self.table.update(zip(blocks, rows))


class KvConnector:
    def __init__(self, kv: torch.Tensor, host_blocks: int):
        self.worker = OffloadWorker(kv, host_blocks)
        self.worker.start()
        self.callback = ForwardPassCallback(self._on_forward_end)

    def _on_forward_end(self, blocks: List[int]) -> None:
        self.worker.jobs.put(blocks)

    def shutdown(self) -> None:
        self.worker.jobs.put(None)
        self.worker.join()


class Engine:
    def __init__(self, device: torch.device, blocks: int = 512, block_size: int = 128, hidden: int = 2048):
        self.kv = torch.zeros(blocks, block_size, hidden, device=device)
        torch.cuda.synchronize(device)
        self.layers = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(16)).to(device)
        self.callbacks: List[ForwardPassCallback] = []
        self.block_size = block_size

    @torch.no_grad()
    def run_forward(self, tokens: torch.Tensor, blocks: List[int]) -> torch.Tensor:
        x = tokens
        for layer in self.layers:
            x = x + torch.nn.functional.gelu(layer(x))
        for block, part in zip(blocks, x.split(self.block_size)):
            self.kv[block].copy_(part)
        for callback in self.callbacks:
            callback.event.record(torch.cuda.current_stream())
            callback.notify(blocks)
        return x


def main() -> None:
    device = torch.device("cuda")
    engine = Engine(device)
    connector = KvConnector(engine.kv, host_blocks=512)
    engine.callbacks.append(connector.callback)
    for step in range(32):
        tokens = torch.randn(16 * 128, 2048, device=device)
        engine.run_forward(tokens, list(range(step * 16, step * 16 + 16)))
    connector.shutdown()
    print(len(connector.worker.table))


if __name__ == "__main__":
    main()
