"""Sampler that uploads its parameters on a stream of its own."""
from dataclasses import dataclass

import torch


@dataclass
class SamplingTensors:
    temperatures: torch.Tensor
    top_ks: torch.Tensor

    @classmethod
    def from_lists(cls, temperatures, top_ks, device):
        t = torch.tensor(temperatures, dtype=torch.float32, pin_memory=True)
        k = torch.tensor(top_ks, dtype=torch.int64, pin_memory=True)
        return cls(t.to(device, non_blocking=True), k.to(device, non_blocking=True))


class Sampler:
    def __init__(self):
        self._copy_stream = torch.cuda.Stream()

    def __call__(self, logits, temperatures, top_ks):
        with torch.cuda.stream(self._copy_stream):
            params = SamplingTensors.from_lists(temperatures, top_ks, logits.device)
        torch.cuda.current_stream().wait_stream(self._copy_stream)
        logits = logits / params.temperatures.unsqueeze(1)
        ordered, idx = logits.sort(-1, descending=True)
        rank = torch.arange(ordered.shape[-1], device=logits.device)
        ordered = ordered.masked_fill(rank[None] >= params.top_ks.unsqueeze(1), float("-inf"))
        pick = torch.multinomial(ordered.softmax(-1), 1)
        return idx.gather(1, pick).squeeze(1)


class Engine:
    def __init__(self, dim=1024, vocab=32000):
        self.lm_head = torch.randn(dim, vocab, device="cuda")
        self.state = torch.randn(64, dim, device="cuda")
        self.sampler = Sampler()

    def step(self, temps, ks):
        self.state = torch.tanh(self.state * 1.1)
        return self.sampler(self.state @ self.lm_head, temps, ks)


def main():
    engine = Engine()
    history = []
    for step in range(128):
        temps = [0.7 + 0.01 * (i + step) for i in range(64)]
        history.append(engine.step(temps, [50 + step] * 64))
    print(torch.stack(history).sum().item())


if __name__ == "__main__":
    main()
