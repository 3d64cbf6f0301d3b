"""Draft attention: scores by batched matmul, mask and softmax by a small numba kernel."""
import math

import torch
from numba import cuda, float32


@cuda.jit
def masked_softmax(scores, lengths, keys):
    row = cuda.blockIdx.x
    lane = cuda.threadIdx.x
    width = cuda.blockDim.x
    buf = cuda.shared.array(256, dtype=float32)
    limit = min(lengths[row], keys)
    top = -math.inf
    for col in range(lane, limit, width):
        top = max(top, scores[row, col])
    buf[lane] = top
    cuda.syncthreads()
    for i in range(width):
        top = max(top, buf[i])
    cuda.syncthreads()
    acc = 0.0
    for col in range(lane, keys, width):
        value = math.exp(scores[row, col] - top) if col < limit else 0.0
        scores[row, col] = value
        acc += value
    buf[lane] = acc
    cuda.syncthreads()
    total = 0.0
    for i in range(width):
        total += buf[i]
    for col in range(lane, keys, width):
        scores[row, col] /= total


class Scratch:
    """A grow-only temporary shared by all layers."""

    def __init__(self, device):
        self.device = device
        self.buffer = torch.empty(0, device=device)

    def borrow(self, heads, queries, keys):
        need = heads * queries * keys
        if self.buffer.numel() < need:
            self.buffer = torch.empty(need, device=self.device)
        return self.buffer[:need].view(heads, queries, keys)


class DraftAttention:
    def __init__(self, scratch):
        self.scratch = scratch

    def __call__(self, q, k, v, lengths):
        heads, queries, dim = q.shape
        keys = k.shape[1]
        scores = self.scratch.borrow(heads, queries, keys)
        torch.bmm(q / math.sqrt(dim), k.transpose(1, 2), out=scores)
        flat = cuda.as_cuda_array(scores.view(heads * queries, keys), sync=False)
        masked_softmax[heads * queries, 256](flat, cuda.as_cuda_array(lengths, sync=False), keys)
        return torch.bmm(scores, v)


class DraftModel:
    def __init__(self, layers, width, heads, device):
        self.heads = heads
        scratch = Scratch(device)
        self.attn = [DraftAttention(scratch) for _ in range(layers)]
        self.qkv = [torch.randn(width, 3 * width, device=device) / width ** 0.5
                    for _ in range(layers)]
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def _layer(self, attn, weight, x, lengths):
        q, k, v = (x @ weight).chunk(3, dim=-1)
        split = [t.unflatten(-1, (self.heads, -1)).transpose(0, 1).contiguous() for t in (q, k, v)]
        return x + attn(*split, lengths).transpose(0, 1).flatten(1)

    @torch.inference_mode()
    def propose(self, x, lengths):
        """x: [tokens, width]; lengths: visible keys per (head, query) row, int32."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for attn, weight in zip(self.attn, self.qkv):
                x = self._layer(attn, weight, x, lengths)
            ids = x.argmax(dim=-1).cpu()
        return ids


def main(tokens=512, width=1024, heads=8, device="cuda"):
    model = DraftModel(6, width, heads, device)
    x = torch.randn(tokens, width, device=device)
    lengths = torch.arange(1, tokens + 1, device=device, dtype=torch.int32).repeat(heads)
    return model.propose(x, lengths)


if __name__ == "__main__":
    print(main()[:8])
