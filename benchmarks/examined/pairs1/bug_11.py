"""Presence penalty through a CuPy raw kernel beside the torch sampler."""
import cupy as cp
import torch

_mark = cp.RawKernel(
    r"""
extern "C" __global__ void mark(const long long* ids, float* seen, int n, int vocab) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) seen[(long long)i * vocab + ids[i]] = 1.0f;
}
""",
    "mark",
)


class PresencePenalty:
    def __init__(self, batch, vocab, beta):
        self.seen = torch.zeros(batch, vocab, device="cuda")
        self.vocab = vocab
        self.beta = beta
        torch.cuda.synchronize()
        self.stream = cp.cuda.Stream(non_blocking=True)

    def update(self, ids):
        n = ids.numel()
        with self.stream:
            _mark(
                ((n + 255) // 256,),
                (256,),
                (cp.asarray(ids), cp.asarray(self.seen), cp.int32(n), cp.int32(self.vocab)),
            )

    def __call__(self, logits):
        return logits - self.beta * self.seen


def run(batch=32, vocab=50000, steps=200):
    head = torch.randn(768, vocab, device="cuda")
    emb = torch.randn(vocab, 768, device="cuda")
    penalty = PresencePenalty(batch, vocab, 0.5)
    state = torch.randn(batch, 768, device="cuda")
    history = []
    for _ in range(steps):
        ids = penalty(state @ head).argmax(-1)
        penalty.update(ids)
        state = torch.tanh(state + emb[ids])
        history.append(ids)
    torch.cuda.synchronize()
    return torch.stack(history).tolist()


if __name__ == "__main__":
    print(len(run()))
