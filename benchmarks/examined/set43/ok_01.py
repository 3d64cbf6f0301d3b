"""Layerwise KV store: the engine produces, a writer thread persists to disk."""
import os
import queue
import tempfile
import threading
from typing import List, Tuple

import torch


class DiskWriter(threading.Thread):
    def __init__(self, root: str):
        super().__init__(daemon=True)
        self.root = root
        self.jobs: "queue.Queue" = queue.Queue()
        self.written: List[str] = []

    def submit(self, key: str, chunks: List[torch.Tensor], ready: torch.cuda.Event):
        self.jobs.put((key, chunks, ready))

    def run(self):
        while True:
            job = self.jobs.get()
            if job is None:
                return
            key, chunks, ready = job
            ready.synchronize()
            path = os.path.join(self.root, key + ".bin")
            with open(path, "wb") as fh:
                for chunk in chunks:
                    fh.write(chunk.numpy().tobytes())
            self.written.append(path)


class LayerKV:
    def __init__(self, num_layers: int, num_slots: int, width: int, device):
        self.layers = [
            torch.zeros((num_slots, width), device=device, dtype=torch.float16)
            for _ in range(num_layers)
        ]

    def write(self, layer: int, slots: torch.Tensor, value: torch.Tensor):
        self.layers[layer].index_copy_(0, slots, value)

    def fetch(self, layer: int, lo: int, hi: int) -> torch.Tensor:
        view = self.layers[layer][lo:hi]
        host = torch.empty(view.shape, dtype=view.dtype, pin_memory=True)
        host.copy_(view, non_blocking=True)
        return host


class StoringEngine:
    def __init__(self, blocks, kv: LayerKV, writer: DiskWriter):
        self.blocks = blocks
        self.kv = kv
        self.writer = writer
        self.stream = torch.cuda.Stream()

    def prefill(self, key: str, hidden: torch.Tensor, span: Tuple[int, int]):
        lo, hi = span
        self.stream.wait_stream(torch.cuda.current_stream())
        hidden.record_stream(self.stream)
        chunks = []
        with torch.cuda.stream(self.stream):
            slots = torch.arange(lo, hi, device=hidden.device)
            for idx, block in enumerate(self.blocks):
                hidden = block(hidden)
                self.kv.write(idx, slots, hidden)
                chunks.append(self.kv.fetch(idx, lo, hi))
            ready = torch.cuda.Event()
            ready.record()
        self.writer.submit(key, chunks, ready)

    def close(self):
        self.writer.jobs.put(None)
        self.writer.join()


def main():
    device = torch.device("cuda", 0)
    width, layers = 2048, 6
    blocks = [
        torch.nn.Linear(width, width, device=device, dtype=torch.float16)
        for _ in range(layers)
    ]
    kv = LayerKV(layers, 1024, width, device)
    with tempfile.TemporaryDirectory() as root:
        writer = DiskWriter(root)
        writer.start()
        engine = StoringEngine(blocks, kv, writer)
        with torch.no_grad():
            for i in range(8):
                hidden = torch.randn((64, width), device=device, dtype=torch.float16)
                span = ((i % 4) * 64, (i % 4) * 64 + 64)
                engine.prefill(f"chunk{i}", hidden, span)
        engine.close()
        print(sum(os.path.getsize(p) for p in writer.written))


if __name__ == "__main__":
    main()
