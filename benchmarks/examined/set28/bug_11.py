import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class HostBufferPool:
    """Pinned host buffers handed out in turn, one per concurrent batch."""

    def __init__(self, shape, dtype, max_concurrent_batches):
        self.buffers = [torch.zeros(shape, dtype=dtype, pin_memory=True) for _ in range(max_concurrent_batches)]
        self.turn = 0

    def next(self):
        buf = self.buffers[self.turn]
        self.turn = (self.turn + 1) % len(self.buffers)
        return buf


class PatchEncoder(nn.Module):
    def __init__(self, patch_dim, hidden, heads=16):
        super().__init__()
        self.heads = heads
        self.proj = nn.Linear(patch_dim, hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)

    def forward(self, patches, lengths):
        x = self.proj(patches)
        b, n, h = x.shape
        keep = (torch.arange(n, device=x.device)[None] < lengths[:, None]).view(b, 1, 1, n)
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, h // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return x + self.out(y.transpose(1, 2).reshape(b, n, h))


class EmbeddingStore:
    def __init__(self):
        self.entries = {}

    def put(self, mm_hash, tensor):
        self.entries[mm_hash] = tensor

    def contains(self, mm_hash):
        return mm_hash in self.entries


class MMEncoderModelRunner:
    """Runs the vision encoder only and publishes its embeddings."""

    def __init__(self, encoder, store, max_items=8, max_patches=4096, patch_dim=1176, max_concurrent_batches=2):
        self.encoder = encoder.eval().cuda().half()
        self.store = store
        self.patches = HostBufferPool((max_items, max_patches, patch_dim), torch.float16, max_concurrent_batches)
        self.lengths = HostBufferPool((max_items,), torch.int32, max_concurrent_batches)

    def _prepare(self, items):
        patches, lengths = self.patches.next(), self.lengths.next()
        longest = max(it.patches.shape[0] for it in items)
        np_patches, np_lengths = patches.numpy(), lengths.numpy()
        for i, it in enumerate(items):
            n = it.patches.shape[0]
            np_patches[i, :n] = it.patches.astype(np.float16)
            np_patches[i, n:longest] = 0
            np_lengths[i] = n
        dev_patches = torch.empty(len(items), longest, patches.shape[2], dtype=torch.float16, device="cuda")
        for i in range(len(items)):
            dev_patches[i].copy_(patches[i, :longest], non_blocking=True)
        dev_lengths = lengths[: len(items)].to("cuda", non_blocking=True)
        return dev_patches, dev_lengths

    @torch.inference_mode()
    def execute_model(self, items):
        todo = [it for it in items if not self.store.contains(it.mm_hash)]
        if not todo:
            return
        patches, lengths = self._prepare(todo)
        out = self.encoder(patches, lengths)
        for i, it in enumerate(todo):
            self.store.put(it.mm_hash, out[i, : it.patches.shape[0]])


def encoder_loop(runner, scheduler):
    while True:
        items = scheduler.next_items()
        if items is None:
            return runner.store
        runner.execute_model(items)
