"""Hidden-state extraction: dump selected layers of finished requests to disk."""
import os
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Dict, List, Tuple

import torch
import torch.nn as nn


class HiddenStatesConnector:
    def __init__(self, root: str, device: torch.device, max_workers: int = 4):
        self.root = root
        self.device = device
        self.copy_stream = torch.cuda.Stream(device=device)
        self.pool = ThreadPoolExecutor(max_workers, thread_name_prefix="hs-writer")
        self.futures: Dict[str, Future] = {}

    def _extract(self, states: torch.Tensor) -> torch.Tensor:
        host = torch.empty(states.shape, dtype=states.dtype, pin_memory=True)
        states.record_stream(self.copy_stream)
        host.copy_(states, non_blocking=True)
        return host

    def save(self, req_id: str, layers: Dict[int, torch.Tensor], token_ids: List[int]):
        self.copy_stream.wait_stream(torch.cuda.current_stream(self.device))
        tensors: Dict[str, torch.Tensor] = {"token_ids": torch.tensor(token_ids)}
        with torch.cuda.stream(self.copy_stream):
            for idx, states in layers.items():
                tensors[f"layer_{idx}"] = self._extract(states)
            event = torch.cuda.Event()
            event.record()
        path = os.path.join(self.root, f"{req_id}.pt")
        self.futures[req_id] = self.pool.submit(self._write, tensors, event, path)

    def _write(self, tensors: Dict[str, torch.Tensor], event: torch.cuda.Event, path: str) -> int:
        torch.cuda.set_device(self.device)
        event.wait()
        torch.save(tensors, path)
        return os.path.getsize(path)

    def get_finished(self) -> List[Tuple[str, int]]:
        done = [(k, f.result()) for k, f in self.futures.items() if f.done()]
        for key, _ in done:
            del self.futures[key]
        return done

    def shutdown(self):
        for future in self.futures.values():
            future.result()
        self.pool.shutdown()


class Tower(nn.Module):
    def __init__(self, width: int, depth: int, capture: Tuple[int, ...]):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.capture = capture

    def forward(self, x: torch.Tensor):
        taken = {}
        for idx, layer in enumerate(self.layers):
            x = x + torch.nn.functional.silu(layer(x))
            if idx in self.capture:
                taken[idx] = x
        return x, taken


@torch.inference_mode()
def main():
    device = torch.device("cuda", 0)
    width = 4096
    tower = Tower(width, 12, capture=(2, 6, 11)).to(device)
    with tempfile.TemporaryDirectory() as root:
        connector = HiddenStatesConnector(root, device)
        for step in range(16):
            n = 256 + 16 * step
            x = torch.randn((n, width), device=device)
            _, layers = tower(x)
            connector.save(f"req{step}", layers, list(range(n)))
            for req_id, size in connector.get_finished():
                print(req_id, size)
        connector.shutdown()


if __name__ == "__main__":
    main()
