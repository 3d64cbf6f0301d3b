"""Decode loop of a small serving engine with one pinned staging array for all step inputs."""
from typing import List, Sequence

import numpy as np
import torch
from torch import nn


class StagingArray:
    def __init__(self, size: int):
        self.cpu = torch.zeros(size, dtype=torch.int64, pin_memory=True)
        self.np = self.cpu.numpy()

    def copy_to(self, target: torch.Tensor, values: Sequence[int]) -> torch.Tensor:
        count = len(values)
        self.np[:count] = values
        return target[:count].copy_(self.cpu[:count], non_blocking=True)


class StepInputs:
    def __init__(self, max_batch: int, device: torch.device):
        self.staging = StagingArray(max_batch)
        self.token_ids = torch.zeros(max_batch, dtype=torch.int64, device=device)
        self.positions = torch.zeros(max_batch, dtype=torch.int64, device=device)
        self.slots = torch.zeros(max_batch, dtype=torch.int64, device=device)

    def prepare(self, tokens: Sequence[int], positions: Sequence[int], slots: Sequence[int]):
        ids = self.staging.copy_to(self.token_ids, tokens)
        pos = self.staging.copy_to(self.positions, positions)
        where = self.staging.copy_to(self.slots, slots)
        return ids, pos, where


class TinyDecoder(nn.Module):
    def __init__(self, vocabulary: int, hidden: int, depth: int, slots: int):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, hidden)
        self.place = nn.Embedding(4096, hidden)
        self.layers = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(depth))
        self.register_buffer("cache", torch.zeros(slots, hidden))

    def forward(self, ids: torch.Tensor, pos: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) + self.place(pos)
        for layer in self.layers:
            x = x + torch.nn.functional.gelu(layer(x))
        state = self.cache.index_select(0, where).mul_(0.9).add_(x)
        self.cache.index_copy_(0, where, state)
        return state @ self.embed.weight.t()


class Engine:
    def __init__(self, device: torch.device, max_batch: int = 1024):
        self.model = TinyDecoder(32000, 2048, 32, max_batch).to(device).eval()
        self.inputs = StepInputs(max_batch, device)
        self.copy_stream = torch.cuda.Stream(device)

    @torch.inference_mode()
    def run_step(self, tokens: Sequence[int], positions: Sequence[int], slots: Sequence[int]):
        logits = self.model(*self.inputs.prepare(tokens, positions, slots))
        sampled = logits.argmax(dim=-1)
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            host = torch.empty(sampled.shape, dtype=torch.int64, pin_memory=True)
            host.copy_(sampled, non_blocking=True)
            sampled.record_stream(self.copy_stream)
            ready = self.copy_stream.record_event()
        return host, ready

    def score(self, prompts: List[List[int]]) -> List[np.ndarray]:
        """Teacher forcing over equally long prompts; results are fetched one step late."""
        slots = list(range(len(prompts)))
        outputs, pending = [], None
        for position in range(len(prompts[0])):
            launched = self.run_step([p[position] for p in prompts], [position] * len(prompts), slots)
            if pending is not None:
                pending[1].synchronize()
                outputs.append(pending[0].numpy().copy())
            pending = launched
        pending[1].synchronize()
        outputs.append(pending[0].numpy().copy())
        return outputs


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    engine = Engine(torch.device("cuda"))
    results = engine.score(rng.integers(0, 32000, (512, 64)).tolist())
    print(len(results), results[-1][:8])
