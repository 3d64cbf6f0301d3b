"""Structured output: grammar masks are computed by a worker while the GPU decodes."""
from concurrent.futures import ThreadPoolExecutor

import torch


class MaskSlot:
    def __init__(self, batch, words):
        self.host = torch.zeros(batch, words, dtype=torch.int32, pin_memory=True)
        self.uploaded = torch.cuda.Event()


class GrammarBackend:
    def __init__(self, batch, vocab):
        self.words = (vocab + 31) // 32
        self.slots = [MaskSlot(batch, self.words) for _ in range(2)]
        self.device_mask = torch.zeros(batch, self.words, dtype=torch.int32, device="cuda")
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.shifts = torch.arange(32, device="cuda", dtype=torch.int32)

    def _fill(self, slot, step):
        slot.uploaded.synchronize()
        view = slot.host.numpy()
        view[:] = -1
        view[:, step % self.words] = 0
        return slot

    def request(self, step):
        return self.pool.submit(self._fill, self.slots[step % 2], step)

    def apply(self, logits, future):
        slot = future.result()
        self.device_mask.copy_(slot.host, non_blocking=True)
        slot.uploaded.record()
        bits = (self.device_mask.unsqueeze(-1) >> self.shifts) & 1
        allowed = bits.flatten(1)[:, : logits.shape[1]].bool()
        return logits.masked_fill(~allowed, float("-inf"))


def main(batch=32, vocab=32000, steps=200):
    backend = GrammarBackend(batch, vocab)
    head = torch.randn(512, vocab, device="cuda")
    h = torch.randn(batch, 512, device="cuda")
    ids = []
    future = backend.request(0)
    for step in range(steps):
        logits = h @ head
        current, future = future, backend.request(step + 1)
        ids.append(backend.apply(logits, current).argmax(-1))
        h = torch.tanh(h * 1.3)
    return torch.stack(ids).cpu()


if __name__ == "__main__":
    print(main().shape)
