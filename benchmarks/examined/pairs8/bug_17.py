import torch
import torch.nn as nn
from numba import cuda


@cuda.jit
def penalize(logits, counts, penalty):
    row = cuda.blockIdx.x
    for col in range(cuda.threadIdx.x, logits.shape[1], cuda.blockDim.x):
        c = counts[row, col]
        if c > 0:
            v = logits[row, col]
            logits[row, col] = v / penalty if v > 0.0 else v * penalty


class RepetitionPenalty:
    def __init__(self, batch, vocab, penalty=1.2):
        self.counts = torch.zeros(batch, vocab, dtype=torch.int32, device="cuda")
        self.penalty = penalty

    def apply(self, logits):
        penalize[logits.shape[0], 256](
            cuda.as_cuda_array(logits), cuda.as_cuda_array(self.counts), self.penalty
        )
        return logits

    def update(self, tokens):
        self.counts.scatter_add_(1, tokens[:, None], torch.ones_like(tokens[:, None], dtype=torch.int32))


class Generator:
    def __init__(self, batch=8, vocab=32000, dim=512):
        self.emb = nn.Embedding(vocab, dim, device="cuda")
        self.head = nn.Linear(dim, vocab, device="cuda")
        self.penalty = RepetitionPenalty(batch, vocab)
        self.stream = torch.cuda.Stream()
        torch.cuda.synchronize()

    @torch.no_grad()
    def generate(self, tokens, steps):
        out = []
        with torch.cuda.stream(self.stream):
            for _ in range(steps):
                logits = self.head(self.emb(tokens))
                logits = self.penalty.apply(logits)
                tokens = logits.argmax(-1)
                self.penalty.update(tokens)
                out.append(tokens)
            result = torch.stack(out, 1).cpu()
        return result


def main():
    gen = Generator()
    prompt = torch.full((8,), 42, dtype=torch.long, device="cuda")
    torch.cuda.synchronize()
    print(gen.generate(prompt, 20))


if __name__ == "__main__":
    main()
