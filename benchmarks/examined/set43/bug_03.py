"""Deferred token output: sampled ids of step N are read while step N+1 runs."""
from collections import deque
from dataclasses import dataclass, field
from typing import Deque, List

import torch
import torch.nn as nn


@dataclass
class Sequence:
    seq_id: int
    token_ids: List[int] = field(default_factory=list)


class TokenOutput:
    def __init__(self, device: torch.device):
        self.device = device
        self.async_copy_stream = torch.cuda.Stream(device=device)
        self.token_ids_cpu: Deque[torch.Tensor] = deque()
        self.events: Deque[torch.cuda.Event] = deque()

    def send_to_cpu_async(self, gpu_tensor: torch.Tensor) -> None:
        default_stream = torch.cuda.current_stream(self.device)
        cpu_tensor = torch.empty(gpu_tensor.shape, dtype=gpu_tensor.dtype, pin_memory=True)
        with torch.cuda.stream(self.async_copy_stream):
            self.async_copy_stream.wait_stream(default_stream)
            cpu_tensor.copy_(gpu_tensor, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self.async_copy_stream)
        self.token_ids_cpu.append(cpu_tensor)
        self.events.append(event)

    def recv_async_output(self) -> List[int]:
        if not self.token_ids_cpu:
            return []
        self.events.popleft().synchronize()
        return self.token_ids_cpu.popleft().tolist()


class TinyLM(nn.Module):
    def __init__(self, vocab: int, width: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        h = self.embed(ids)
        return self.head(h + self.mlp(h))


class ModelRunner:
    def __init__(self, model: TinyLM, batch: int, device: torch.device):
        self.model = model
        self.device = device
        self.input_ids = torch.zeros(batch, dtype=torch.long, device=device)
        self.output = TokenOutput(device)

    def sample(self, logits: torch.Tensor, temperature: float) -> torch.Tensor:
        probs = torch.softmax(logits / temperature, dim=-1)
        noise = torch.empty_like(probs).exponential_(1)
        return probs.div_(noise).argmax(dim=-1)

    def forward(self, temperature: float) -> List[int]:
        logits = self.model(self.input_ids)
        sampled = self.sample(logits, temperature)
        self.input_ids.copy_(sampled)
        previous = self.output.recv_async_output()
        self.output.send_to_cpu_async(sampled)
        return previous

    def flush(self) -> List[int]:
        return self.output.recv_async_output()


class Engine:
    def __init__(self, runner: ModelRunner, seqs: List[Sequence]):
        self.runner = runner
        self.seqs = seqs

    def _append(self, tokens: List[int]):
        for seq, tok in zip(self.seqs, tokens):
            seq.token_ids.append(tok)

    @torch.inference_mode()
    def generate(self, max_tokens: int, temperature: float = 0.8):
        for _ in range(max_tokens):
            self._append(self.runner.forward(temperature))
        self._append(self.runner.flush())
        return self.seqs


def main():
    device = torch.device("cuda", 0)
    batch = 64
    model = TinyLM(vocab=32000, width=1024).to(device)
    runner = ModelRunner(model, batch, device)
    engine = Engine(runner, [Sequence(i) for i in range(batch)])
    for seq in engine.generate(128)[:2]:
        print(seq.seq_id, seq.token_ids[:16])


if __name__ == "__main__":
    main()
