import numpy as np
import torch


class NestedOffsets:
    """Per-batch offsets and sizes of a nested tensor, uploaded before each kernel."""

    def __init__(self, max_batch, device):
        self.device = device
        self.max_batch = max_batch
        self.host = np.zeros((3, max_batch + 1), dtype=np.int32)

    def update(self, lengths, dim):
        n = len(lengths)
        if n > self.max_batch:
            raise ValueError("batch too large")
        self.host.fill(0)
        np.cumsum(lengths, out=self.host[0, 1:n + 1])
        self.host[1, :n] = lengths
        self.host[2, :n] = np.asarray(lengths) * dim
        metadata = torch.from_numpy(self.host).to(self.device, non_blocking=True)
        return metadata[0, :n + 1], metadata[1, :n], metadata[2, :n]


class NestedQKV(torch.nn.Module):

    def __init__(self, dim, heads, max_batch, device):
        super().__init__()
        self.qkv = torch.nn.Linear(dim, 3 * dim, device=device)
        self.heads = heads
        self.dim = dim
        self.offsets = NestedOffsets(max_batch, device)

    def transform_bias_rescale(self, packed, lengths):
        cu, sizes, _ = self.offsets.update(lengths, self.dim)
        batch, longest = len(lengths), max(lengths)
        pos = torch.arange(longest, device=packed.device)
        index = cu[:-1, None] + pos[None, :]
        mask = pos[None, :] < sizes[:, None]
        index = torch.where(mask, index, torch.zeros_like(index)).long()
        padded = packed[index] * mask.unsqueeze(-1)
        q, k, v = padded.view(batch, longest, 3, self.heads, -1).unbind(2)
        scale = (self.dim // self.heads) ** -0.5
        return q.transpose(1, 2) * scale, k.transpose(1, 2), v.transpose(1, 2)

    def forward(self, packed, lengths):
        return self.transform_bias_rescale(self.qkv(packed), lengths)


def run(module, batches):
    outs = []
    with torch.no_grad():
        for packed, lengths in batches:
            q, k, v = module(packed, lengths)
            outs.append(torch.nn.functional.scaled_dot_product_attention(q, k, v))
    return outs
