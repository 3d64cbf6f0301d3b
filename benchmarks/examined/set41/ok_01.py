"""Speculative decoding runner that keeps acceptance counts on both sides."""
import numpy as np
import torch


class AcceptanceCounts:
    def __init__(self, max_reqs, device):
        self.gpu = torch.ones(max_reqs, dtype=torch.int32, device=device)
        self.cpu = torch.ones(max_reqs, dtype=torch.int32, pin_memory=True)
        self.np = self.cpu.numpy()
        self._landed = torch.cuda.Event()
        self._outstanding = False

    def publish(self, n):
        self.cpu[:n].copy_(self.gpu[:n], non_blocking=True)
        self._landed.record()
        self._outstanding = True

    def settle(self):
        if self._outstanding:
            self._landed.synchronize()
            self._outstanding = False

    def reset_rows(self, rows):
        self.np[rows] = 1


class SpecRunner:
    def __init__(self, max_reqs=64, draft=3, dim=512, vocab=8192, device="cuda"):
        self.device = torch.device(device)
        self.draft = draft
        self.counts = AcceptanceCounts(max_reqs, self.device)
        self.state = torch.zeros(max_reqs, dim, device=self.device)
        self.cell = torch.randn(dim, dim, device=self.device) / dim ** 0.5
        self.head = torch.randn(dim, vocab, device=self.device) / dim ** 0.5
        self.gen = torch.Generator(device=self.device).manual_seed(0)

    def _metadata(self, n):
        self.counts.settle()
        accepted = self.counts.np[:n]
        starts = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(accepted, out=starts[1:])
        return starts

    def _verify(self, logits, drafts):
        match = (logits.argmax(-1) == drafts).int()
        return match.cumprod(dim=1).sum(dim=1).int() + 1

    def _after(self, n, accepted):
        self.counts.gpu[:n].copy_(accepted)
        self.counts.publish(n)

    @torch.inference_mode()
    def step(self, n, finished):
        starts = self._metadata(n)
        if finished:
            self.counts.reset_rows(finished)
        total = int(starts[-1])
        h = self.state[:n]
        logits = []
        for _ in range(self.draft):
            h = torch.tanh(h @ self.cell + 0.01 * total)
            logits.append(h @ self.head)
        logits = torch.stack(logits, dim=1)
        drafts = torch.randint(
            0, logits.shape[-1], logits.shape[:2], device=self.device, generator=self.gen
        )
        self.state[:n].copy_(h)
        self._after(n, self._verify(logits, drafts))
        return total


def main():
    runner = SpecRunner()
    tokens = []
    for it in range(40):
        done = [it % 32] if it % 7 == 0 else []
        tokens.append(runner.step(32, done))
    runner.counts.settle()
    print(tokens[-5:], runner.counts.np[:8])


if __name__ == "__main__":
    main()
