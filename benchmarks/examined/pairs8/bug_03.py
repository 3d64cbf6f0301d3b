import numpy as np
import torch


class SamplingParamsBuffer:
    """Per-batch sampling parameters, mirrored on the device."""

    def __init__(self, max_bs):
        self.temperature_cpu = torch.ones(max_bs, pin_memory=True)
        self.top_k_cpu = torch.zeros(max_bs, dtype=torch.int32, pin_memory=True)
        self.temperature = torch.ones(max_bs, device="cuda")
        self.top_k = torch.zeros(max_bs, dtype=torch.int32, device="cuda")

    def fill(self, requests):
        temps = self.temperature_cpu.numpy()
        ks = self.top_k_cpu.numpy()
        for i, r in enumerate(requests):
            temps[i] = r["temperature"]
            ks[i] = r["top_k"]
        n = len(requests)
        self.temperature[:n].copy_(self.temperature_cpu[:n], non_blocking=True)
        self.top_k[:n].copy_(self.top_k_cpu[:n], non_blocking=True)
        return n


class Sampler:
    def __init__(self, max_bs=128, vocab=32000):
        self.params = SamplingParamsBuffer(max_bs)
        self.weight = torch.randn(1024, vocab, device="cuda")
        self.hidden = torch.randn(max_bs, 1024, device="cuda")

    def step(self, requests):
        n = self.params.fill(requests)
        logits = self.hidden[:n] @ self.weight
        probs = torch.softmax(logits / self.params.temperature[:n, None], dim=-1)
        cdf = probs.cumsum(-1)
        return (cdf > 0.5).int().argmax(-1) + self.params.top_k[:n]


def main():
    rng = np.random.default_rng(0)
    sampler = Sampler()
    outputs = []
    for _ in range(200):
        reqs = [
            {"temperature": float(rng.uniform(0.1, 2.0)), "top_k": int(rng.integers(1, 50))}
            for _ in range(64)
        ]
        outputs.append(sampler.step(reqs))
    print(torch.stack(outputs).cpu())


if __name__ == "__main__":
    main()
