from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn


class OffloadActivations(torch.autograd.graph.saved_tensors_hooks):
    """Saves large activations in pinned host memory during forward and restores them for backward."""

    def __init__(self, min_bytes=1 << 20, max_stash=5):
        self.min_bytes, self.max_stash = min_bytes, max_stash
        self.s1 = torch.cuda.Stream()
        self.tracker = {}
        self.fwd_stash = OrderedDict()
        self.counter = 0
        super().__init__(self.pack_tensor, self.unpack_tensor)

    def __enter__(self):
        self.tracker.clear()
        self.fwd_stash.clear()
        return super().__enter__()

    def _trim_stash(self, compute):
        while len(self.fwd_stash) > self.max_stash:
            _, (tensor, event) = self.fwd_stash.popitem(last=False)
            compute.wait_event(event)
            del tensor

    def pack_tensor(self, activation):
        if not activation.is_cuda or isinstance(activation, nn.Parameter):
            return activation
        if activation.numel() * activation.element_size() < self.min_bytes:
            return activation
        compute = torch.cuda.current_stream()
        tensor_id, self.counter = self.counter, self.counter + 1
        self.s1.wait_stream(compute)
        with torch.cuda.stream(self.s1):
            if activation.storage_offset() != 0 or not activation.is_contiguous():
                activation = activation.clone(memory_format=torch.contiguous_format)
            host = torch.empty(activation.shape, dtype=activation.dtype, pin_memory=True)
            host.copy_(activation, non_blocking=True)
            event = self.s1.record_event()
        self.tracker[tensor_id] = host
        self.fwd_stash[tensor_id] = (activation, event)
        self._trim_stash(compute)
        return tensor_id

    def unpack_tensor(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        compute = torch.cuda.current_stream()
        host = self.tracker.pop(packed)
        if packed in self.fwd_stash:
            activation, _ = self.fwd_stash.pop(packed)
            return activation
        with torch.cuda.stream(self.s1):
            restored = host.to("cuda", non_blocking=True)
            event = self.s1.record_event()
        compute.wait_event(event)
        restored.record_stream(compute)
        return restored


class Block(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.gate = nn.Linear(hidden, 8 * hidden, bias=False)
        self.down = nn.Linear(4 * hidden, hidden, bias=False)

    def forward(self, x):
        a, b = self.gate(self.norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(a) * b)


class CausalLM(nn.Module):
    def __init__(self, vocab, hidden, depth):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.blocks = nn.ModuleList(Block(hidden) for _ in range(depth))
        self.head = nn.Linear(hidden, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))


def train(model, loader, optimizer, steps):
    offload = OffloadActivations()
    for _, ids in zip(range(steps), loader):
        with offload:
            loss = model(ids.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
