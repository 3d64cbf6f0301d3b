"""Threaded model loader with one page-locked arena, used for swapping models in a server."""
import threading
from dataclasses import dataclass

import torch


@dataclass
class TensorRecord:
    name: str
    data: torch.Tensor
    offset: int = 0


class PinnedArena:
    def __init__(self, nbytes):
        self.buffer = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)

    def slice(self, offset, record: TensorRecord):
        raw = self.buffer[offset:offset + record.data.numel() * record.data.element_size()]
        return raw.view(record.data.dtype).view(record.data.shape)


class Checkpoint:
    """Stands for a mapped weight file."""

    def __init__(self, tensors):
        self.records = []
        offset = 0
        for name, t in tensors.items():
            self.records.append(TensorRecord(name, t, offset))
            offset += -(-t.numel() * t.element_size() // 256) * 256
        self.nbytes = offset


class ModelContext:
    def __init__(self, checkpoint: Checkpoint, arena: PinnedArena, workers=4, device="cuda"):
        self.params = {
            r.name: torch.empty(r.data.shape, dtype=r.data.dtype, device=device) for r in checkpoint.records
        }
        start = torch.cuda.Event()
        start.record()
        finished = []
        lock = threading.Lock()

        def load(records):
            stream = torch.cuda.Stream()
            stream.wait_event(start)
            with torch.cuda.stream(stream):
                for record in records:
                    staged = arena.slice(record.offset, record)
                    staged.copy_(record.data)
                    self.params[record.name].copy_(staged, non_blocking=True)
                event = torch.cuda.Event()
                event.record(stream)
            with lock:
                finished.append(event)

        threads = [
            threading.Thread(target=load, args=(checkpoint.records[i::workers],)) for i in range(workers)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for event in finished:
            torch.cuda.current_stream().wait_event(event)

    def run(self, x):
        for name in sorted(self.params):
            x = torch.tanh(x @ self.params[name])
        return x


class ModelServer:
    def __init__(self, checkpoints: dict):
        self.checkpoints = checkpoints
        self.arena = PinnedArena(max(c.nbytes for c in checkpoints.values()))
        self.context = None
        self.active = None

    def swap(self, name):
        if self.active == name:
            return self.context
        self.context = None
        self.context = ModelContext(self.checkpoints[name], self.arena)
        self.active = name
        return self.context

    def handle(self, name, x):
        return self.swap(name).run(x)


def make_checkpoint(seed, width=4096, layers=16):
    g = torch.Generator().manual_seed(seed)
    return Checkpoint(
        {f"layer{i:02d}": torch.randn(width, width, generator=g).half() / width ** 0.5 for i in range(layers)}
    )


def main():
    server = ModelServer({"image": make_checkpoint(0), "video": make_checkpoint(1)})
    x = torch.randn(16, 4096, device="cuda", dtype=torch.float16)
    results = []
    for name in ("image", "video", "image", "video"):
        results.append(server.handle(name, x))
    torch.cuda.synchronize()
    print([float(r.float().std()) for r in results])


if __name__ == "__main__":
    main()
