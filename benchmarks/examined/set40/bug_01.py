"""Long-context fine-tuning loop that parks saved activations in pinned host memory."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd.graph import saved_tensors_hooks


class ActivationSpiller(saved_tensors_hooks):
    """Packs big saved tensors to the host, brings them back for backward."""

    def __init__(self, model, min_bytes=1 << 20):
        super().__init__(self._pack, self._unpack)
        self.min_bytes = min_bytes
        self.xfer = torch.cuda.Stream()
        self.weights = {p.data_ptr() for p in model.parameters()}
        self.parked = {}
        self.ticket = 0
        self.bytes_out = 0

    def _eligible(self, t):
        if not t.is_cuda or t.data_ptr() in self.weights:
            return False
        return t.numel() * t.element_size() >= self.min_bytes

    def _pack(self, t):
        if not self._eligible(t):
            return ("keep", t)
        host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        compute = torch.cuda.current_stream(t.device)
        self.xfer.wait_stream(compute)
        if t.storage_offset() != 0 or not t.is_contiguous():
            t = t.clone(memory_format=torch.contiguous_format)
        with torch.cuda.stream(self.xfer):
            host.copy_(t, non_blocking=True)
            landed = self.xfer.record_event()
        t.record_stream(self.xfer)
        self.ticket += 1
        self.bytes_out += host.numel() * host.element_size()
        self.parked[self.ticket] = (host, landed, t.device)
        return ("parked", self.ticket)

    def _unpack(self, item):
        kind, payload = item
        if kind == "keep":
            return payload
        host, landed, device = self.parked.pop(payload)
        torch.cuda.current_stream(device).wait_event(landed)
        return host.to(device, non_blocking=True)


class GatedHeads(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qv = nn.Linear(dim, 2 * dim, bias=False)
        self.gate = nn.Parameter(torch.ones(heads, 1, dim // heads))
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, v = self.qv(x).chunk(2, dim=-1)
        q = q.reshape(b, n, self.heads, -1).transpose(1, 2)
        v = v.reshape(b, n, self.heads, -1).transpose(1, 2)
        y = torch.sigmoid(q * self.gate) * v
        return self.out(y.transpose(1, 2).reshape(b, n, d))


class Stack(nn.Module):
    def __init__(self, dim, heads, depth, vocab):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(GatedHeads(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        h = self.embed(ids)
        for layer in self.layers:
            h = h + layer(h)
        return self.head(h)


def train(args):
    torch.manual_seed(0)
    model = Stack(args.dim, args.heads, args.depth, args.vocab).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    spill = ActivationSpiller(model)
    ids = torch.randint(args.vocab, (args.batch, args.seq + 1), device="cuda")
    for step in range(args.steps):
        with spill:
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].reshape(-1))
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    print(f"loss {loss.item():.4f}, spilled {spill.bytes_out >> 20} MiB")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--dim", type=int, default=1024)
    ap.add_argument("--heads", type=int, default=8)
    ap.add_argument("--depth", type=int, default=6)
    ap.add_argument("--vocab", type=int, default=4096)
    ap.add_argument("--batch", type=int, default=2)
    ap.add_argument("--seq", type=int, default=4096)
    ap.add_argument("--steps", type=int, default=20)
    train(ap.parse_args())
