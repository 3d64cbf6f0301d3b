"""Copies layer outputs to page-locked memory during a forward sweep (hooks)."""
import contextlib

import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, vocab=4000, d=768, layers=8, heads=12):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d, heads, 4 * d, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(d)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class ActivationVault:
    """Keeps a host copy of every tapped module's output."""

    def __init__(self, device="cuda"):
        self.stream = torch.cuda.Stream(device)
        self.slots = {}
        self.live = []
        self.handles = []

    def _slot(self, name, out):
        slot = self.slots.get(name)
        if slot is None or slot.shape != out.shape:
            slot = torch.empty(out.shape, dtype=out.dtype, pin_memory=True)
            self.slots[name] = slot
        return slot

    def _hook(self, name):
        def fn(module, args, out):
            value = out[0] if isinstance(out, tuple) else out
            value = value.detach()
            with torch.cuda.stream(self.stream):
                self._slot(name, value).copy_(value, non_blocking=True)
            self.live.append(value)
        return fn

    @contextlib.contextmanager
    def tap(self, modules):
        for name, m in modules:
            self.handles.append(m.register_forward_hook(self._hook(name)))
        try:
            yield self
        finally:
            for h in self.handles:
                h.remove()
            self.handles.clear()

    def drain(self):
        self.stream.synchronize()
        torch.cuda.current_stream().synchronize()
        self.live.clear()
        return {k: v.clone() for k, v in self.slots.items()}


def summarize(acts):
    rows = []
    for name, a in acts.items():
        flat = a.float().reshape(-1, a.shape[-1])
        rows.append((name, flat.norm(dim=-1).mean().item(), flat.abs().max().item()))
    return rows


def prompts(n, length, vocab):
    g = torch.Generator().manual_seed(9)
    for _ in range(n):
        yield torch.randint(vocab, (8, length), generator=g)


@torch.inference_mode()
def collect(model, vault, n=6):
    history = []
    taps = [(f"layer{i}", layer) for i, layer in enumerate(model.layers)]
    with vault.tap(taps):
        for ids in prompts(n, 256, 4000):
            model(ids.cuda())
            history.append(summarize(vault.drain()))
    return history


def main():
    torch.manual_seed(0)
    model = Encoder().cuda().half().eval()
    vault = ActivationVault()
    for step, rows in enumerate(collect(model, vault)):
        for name, norm, peak in rows:
            print(step, name, f"{norm:.3f} {peak:.3f}")


if __name__ == "__main__":
    main()
