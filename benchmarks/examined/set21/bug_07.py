import threading
from queue import Queue
from typing import Dict, List

import torch
import torch.nn as nn


class DeviceContext:
    def __init__(self, device_idx: int):
        self.device = torch.device("cuda", device_idx)
        self.stream = torch.cuda.Stream(self.device)


class Model:
    """Decoder whose embedding table stays in system memory."""

    def __init__(self, vocab: int, hidden: int, depth: int, device_idx: int = 0):
        self.ctx = DeviceContext(device_idx)
        self.vocab, self.hidden, self.depth = vocab, hidden, depth
        self.embed_cpu = None
        self.layers: List[nn.Module] = []
        self.head = None

    def load(self) -> None:
        torch.cuda.set_stream(self.ctx.stream)
        self.embed_cpu = torch.randn(self.vocab, self.hidden, dtype=torch.float16)
        for _ in range(self.depth):
            self.layers.append(nn.Linear(self.hidden, self.hidden).half().to(self.ctx.device))
        self.head = nn.Linear(self.hidden, self.vocab, bias=False).half().to(self.ctx.device)
        self.ctx.stream.synchronize()

    def _embed(self, ids: torch.Tensor) -> torch.Tensor:
        rows = torch.empty(ids.numel(), self.hidden, dtype=torch.float16, pin_memory=True)
        torch.index_select(self.embed_cpu, 0, ids, out=rows)
        hidden = torch.empty_like(rows, device=self.ctx.device)
        with torch.cuda.stream(self.ctx.stream):
            hidden.copy_(rows, non_blocking=True)
        return hidden

    @torch.inference_mode()
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self._embed(ids)
        for layer in self.layers:
            hidden = hidden + torch.nn.functional.silu(layer(hidden))
        return self.head(hidden[-1:])


class Job:
    def __init__(self, prompt: torch.Tensor, max_new_tokens: int):
        self.ids = prompt
        self.max_new_tokens = max_new_tokens
        self.results: Queue = Queue()


class Generator:
    def __init__(self, model: Model):
        self.model = model
        self.lock = threading.Lock()
        self.threads: Dict[int, threading.Thread] = {}

    def _run(self, job: Job) -> None:
        ids = job.ids
        for _ in range(job.max_new_tokens):
            with self.lock:
                logits = self.model.forward(ids)
                token = logits.argmax(dim=-1).cpu()
            ids = torch.cat([ids, token])
            job.results.put(int(token))

    def submit(self, job: Job) -> None:
        thread = threading.Thread(target=self._run, args=(job,), daemon=True)
        self.threads[id(job)] = thread
        thread.start()


def main() -> List[int]:
    model = Model(32000, 4096, 24)
    model.load()
    generator = Generator(model)
    job = Job(torch.randint(0, 32000, (512,)), 64)
    generator.submit(job)
    generator.threads[id(job)].join()
    return [job.results.get() for _ in range(64)]
