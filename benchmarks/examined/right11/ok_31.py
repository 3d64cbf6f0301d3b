from __future__ import annotations

import threading
from queue import Queue

import torch


class FutureMap:
    """Maps negative placeholder ids to tokens that a running step will produce."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self.table = torch.zeros(limit * 4, dtype=torch.long, device="cuda")

    def reserve(self, n: int) -> torch.Tensor:
        start = self.count
        self.count = (self.count + n) % (self.limit * 2)
        return torch.arange(-(start + 1), -(start + 1 + n), -1)

    def resolve(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.where(ids < 0, self.table[torch.clamp(-ids, min=0)], ids)

    def store(self, placeholders: torch.Tensor, tokens: torch.Tensor) -> None:
        self.table[-placeholders] = tokens


class OverlapWorker:
    """Runs forward passes on a thread with a stream of its own."""

    def __init__(self, model: torch.nn.Module, limit: int) -> None:
        self.model = model
        self.futures = FutureMap(limit)
        self.forward_stream = torch.cuda.Stream()
        self.inputs: Queue = Queue()
        self.outputs: Queue = Queue()
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def _loop(self) -> None:
        with torch.cuda.stream(self.forward_stream), torch.inference_mode():
            while (item := self.inputs.get()) is not None:
                ids, placeholders, ready = item
                ready.wait()
                tokens = self.model(self.futures.resolve(ids)).argmax(-1)
                self.futures.store(placeholders, tokens)
                host = torch.empty(tokens.shape, dtype=tokens.dtype, pin_memory=True)
                host.copy_(tokens, non_blocking=True)
                copy_done = torch.cuda.Event()
                copy_done.record()
                self.outputs.put((copy_done, host, item))

    def submit(self, ids: torch.Tensor) -> torch.Tensor:
        placeholders = self.futures.reserve(ids.numel())
        device_ids = ids.to("cuda")
        device_slots = placeholders.to("cuda")
        ready = torch.cuda.Event()
        ready.record()
        self.inputs.put((device_ids, device_slots, ready))
        return placeholders

    def result(self) -> list[int]:
        copy_done, host, item = self.outputs.get()
        copy_done.synchronize()
        del item
        return host.tolist()

    def close(self) -> None:
        self.inputs.put(None)
        self.thread.join()


def main() -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(1000, 64), torch.nn.Linear(64, 1000)).cuda()
    torch.cuda.synchronize()
    worker = OverlapWorker(model, limit=64)
    torch.cuda.synchronize()
    ids = torch.arange(1, 17)
    sequences: list[list[int]] = []
    ids = worker.submit(ids)
    for _ in range(20):
        ids = worker.submit(ids)
        sequences.append(worker.result())
    sequences.append(worker.result())
    worker.close()
    print(len(sequences), sequences[-1])


if __name__ == "__main__":
    main()
