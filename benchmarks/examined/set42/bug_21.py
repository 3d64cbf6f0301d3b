"""Speculative decode loop with an overlapped scheduler."""
from collections import deque
from dataclasses import dataclass
from typing import List

import torch
import torch.nn as nn


@dataclass
class DecodeBatch:
    req_pool_indices: torch.Tensor
    seq_lens: torch.Tensor
    last_tokens: torch.Tensor

    @property
    def size(self) -> int:
        return self.req_pool_indices.numel()


@dataclass
class LaunchResult:
    tokens: torch.Tensor
    copy_done: torch.cuda.Event


class ReqToTokenPool:
    def __init__(self, size: int, max_context_len: int, device: str):
        self.req_to_token = torch.zeros((size, max_context_len), dtype=torch.int64, device=device)
        self._next_slot = 0

    def take(self, n: int) -> torch.Tensor:
        start = self._next_slot
        self._next_slot += n
        return torch.arange(start, start + n, device=self.req_to_token.device)

    def write(self, rows, cols, values):
        self.req_to_token[rows, cols] = values


class VerifyWorker:
    """Runs the target model and accepts draft tokens on its own stream."""

    def __init__(self, model: nn.Module, max_bs: int, device: str):
        self.model = model
        self.stream = torch.cuda.Stream(device=device)
        self.host_tokens = [
            torch.empty(max_bs, dtype=torch.int64, pin_memory=True) for _ in range(2)
        ]
        self.step = 0

    @torch.inference_mode()
    def launch(self, batch: DecodeBatch, schedule_stream) -> LaunchResult:
        out = self.host_tokens[self.step % 2]
        self.step += 1
        self.stream.wait_stream(schedule_stream)
        with torch.cuda.stream(self.stream):
            logits = self.model(batch.last_tokens)
            next_tokens = logits.argmax(dim=-1)
            accepted = 1 + (next_tokens % 3 == 0).to(batch.seq_lens.dtype)
            batch.last_tokens.copy_(next_tokens)
            batch.seq_lens.add_(accepted)
            out[: batch.size].copy_(next_tokens, non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        return LaunchResult(out, done)


class Scheduler:
    def __init__(self, worker: VerifyWorker, pool: ReqToTokenPool):
        self.worker = worker
        self.pool = pool
        self.result_queue: deque = deque()
        self.generated: List[List[int]] = []
        self.schedule_stream = torch.cuda.current_stream()

    def prepare_for_decode(self, batch: DecodeBatch):
        loc = self.pool.take(batch.size)
        self.pool.write(batch.req_pool_indices, batch.seq_lens, loc)

    def process_batch_result(self, result: LaunchResult, size: int):
        result.copy_done.synchronize()
        self.generated.append(result.tokens[:size].tolist())

    def event_loop_overlap(self, batch: DecodeBatch, steps: int):
        for _ in range(steps):
            self.prepare_for_decode(batch)
            result = self.worker.launch(batch, self.schedule_stream)
            self.result_queue.append(result)
            if len(self.result_queue) > 1:
                self.process_batch_result(self.result_queue.popleft(), batch.size)
        while self.result_queue:
            self.process_batch_result(self.result_queue.popleft(), batch.size)
        return self.generated


class TinyLM(nn.Module):
    def __init__(self, vocab: int = 4096, dim: int = 1024):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(12))
        self.head = nn.Linear(dim, vocab)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return self.head(x)


def main(batch_size: int = 64, steps: int = 100):
    device = "cuda"
    worker = VerifyWorker(TinyLM().to(device).eval(), batch_size, device)
    pool = ReqToTokenPool(batch_size, 4096, device)
    batch = DecodeBatch(
        req_pool_indices=torch.arange(batch_size, device=device),
        seq_lens=torch.full((batch_size,), 17, dtype=torch.int64, device=device),
        last_tokens=torch.randint(0, 4096, (batch_size,), device=device),
    )
    out = Scheduler(worker, pool).event_loop_overlap(batch, steps)
    print(len(out), out[-1][:8])


if __name__ == "__main__":
    main()
