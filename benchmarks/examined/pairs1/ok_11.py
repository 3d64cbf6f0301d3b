"""Frequency penalty kept up to date by a small Numba kernel."""
import torch
from numba import cuda


@cuda.jit
def count_tokens(ids, counts):
    i = cuda.grid(1)
    if i < ids.shape[0]:
        cuda.atomic.add(counts, (i, ids[i]), 1)


class FrequencyPenalty:
    def __init__(self, batch, vocab, alpha):
        self.counts = torch.zeros(batch, vocab, dtype=torch.int32, device="cuda")
        self.alpha = alpha
        self.stream = cuda.stream()

    def observe(self, ids):
        n = ids.shape[0]
        count_tokens[(n + 127) // 128, 128, self.stream](
            cuda.as_cuda_array(ids), cuda.as_cuda_array(self.counts)
        )

    def apply(self, logits):
        return logits - self.alpha * self.counts[: logits.shape[0]]


def generate(batch=64, vocab=32000, steps=128):
    head = torch.randn(512, vocab, device="cuda")
    emb = torch.randn(vocab, 512, device="cuda")
    penalty = FrequencyPenalty(batch, vocab, 0.3)
    h = torch.randn(batch, 512, device="cuda")
    out = []
    for _ in range(steps):
        ids = penalty.apply(h @ head).argmax(-1)
        penalty.observe(ids)
        h = torch.tanh(h + emb[ids])
        out.append(ids)
    return torch.stack(out, 1).cpu()


if __name__ == "__main__":
    print(generate().shape)
