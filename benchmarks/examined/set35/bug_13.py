"""Model instance that gathers request tensors, runs the model and builds responses."""
import enum
import queue
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import List

import numpy as np
import torch


class Kind(enum.Enum):
    CPU = "cpu"
    GPU = "gpu"


@dataclass
class Request:
    payload: torch.Tensor
    response: Future = field(default_factory=Future)


class InputCollector:
    """Packs the rows of all requests into one batch buffer."""

    def __init__(self, max_rows: int, width: int, kind: Kind, stream: torch.cuda.Stream):
        self.kind = kind
        self.stream = stream
        if kind is Kind.GPU:
            self.buffer = torch.empty(max_rows, width, device="cuda")
        else:
            self.buffer = torch.empty(max_rows, width, pin_memory=True)

    def collect(self, requests: List[Request]) -> torch.Tensor:
        row = 0
        with torch.cuda.stream(self.stream):
            for request in requests:
                rows = request.payload.shape[0]
                self.buffer[row:row + rows].copy_(request.payload, non_blocking=True)
                row += rows
        return self.buffer[:row]


class ModelInstance(threading.Thread):
    def __init__(self, model: torch.nn.Module, kind: Kind, max_rows: int, width: int):
        super().__init__(daemon=True)
        self.kind = kind
        self.device = torch.device("cuda" if kind is Kind.GPU else "cpu")
        self.model = model.to(self.device).eval()
        self.stream = torch.cuda.Stream()
        self.collector = InputCollector(max_rows, width, kind, self.stream)
        self.requests: "queue.Queue" = queue.Queue()

    def _execute(self, batch: torch.Tensor) -> np.ndarray:
        if self.kind is Kind.GPU:
            with torch.cuda.stream(self.stream):
                out = self.model(batch)
                host = torch.empty(out.shape, pin_memory=True)
                host.copy_(out, non_blocking=True)
                self.stream.synchronize()
            return host.numpy()
        return self.model(batch).numpy()

    @torch.inference_mode()
    def run(self) -> None:
        while True:
            requests = self.requests.get()
            if requests is None:
                return
            batch = self.collector.collect(requests)
            result = self._execute(batch)
            row = 0
            for request in requests:
                rows = request.payload.shape[0]
                request.response.set_result(result[row:row + rows].copy())
                row += rows

    def submit(self, payloads: List[torch.Tensor]) -> List[Future]:
        requests = [Request(p) for p in payloads]
        torch.cuda.current_stream().synchronize()
        self.requests.put(requests)
        return [r.response for r in requests]


def main() -> None:
    instance = ModelInstance(torch.nn.Identity(), Kind.CPU, max_rows=8192, width=2048)
    instance.start()
    for step in range(8):
        payloads = [torch.full((1024, 2048), float(step * 8 + i), device="cuda")
                    for i in range(8)]
        answers = [f.result() for f in instance.submit(payloads)]
        print(step, [float(a.mean()) for a in answers])
    instance.requests.put(None)
    instance.join()


if __name__ == "__main__":
    main()
