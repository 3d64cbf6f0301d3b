"""Serving a base model with swappable low-rank adapters (torch)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRALinear(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        self.register_buffer("a", torch.zeros(rank, base.in_features, dtype=base.weight.dtype))
        self.register_buffer("b", torch.zeros(base.out_features, rank, dtype=base.weight.dtype))

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.a), self.b)


class Block(nn.Module):
    def __init__(self, d, rank):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.up = LoRALinear(nn.Linear(d, 4 * d), rank)
        self.down = LoRALinear(nn.Linear(4 * d, d), rank)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, d=1024, layers=6, vocab=8000, rank=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(Block(d, rank) for _ in range(layers))
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for b in self.blocks:
            x = b(x)
        return self.head(x[:, -1])


class AdapterBank:
    """Host-side adapters, page-locked once when they are registered."""

    def __init__(self, model):
        self.targets = {n: m for n, m in model.named_modules() if isinstance(m, LoRALinear)}
        self.store = {}

    def register(self, name, seed):
        g = torch.Generator().manual_seed(seed)
        self.store[name] = {
            key: ((torch.randn(m.a.shape, generator=g) * 0.02).to(m.a.dtype).pin_memory(),
                  (torch.randn(m.b.shape, generator=g) * 0.02).to(m.b.dtype).pin_memory())
            for key, m in self.targets.items()
        }


class AdapterLoader:
    def __init__(self, bank):
        self.bank = bank
        self.stream = torch.cuda.Stream()
        self.ready = torch.cuda.Event()
        self.active = None

    def activate(self, name):
        if name == self.active:
            return
        with torch.cuda.stream(self.stream):
            for key, (a, b) in self.bank.store[name].items():
                target = self.bank.targets[key]
                target.a.copy_(a, non_blocking=True)
                target.b.copy_(b, non_blocking=True)
            self.ready.record()
        self.active = name

    def before_forward(self):
        torch.cuda.current_stream().wait_event(self.ready)


class Server:
    def __init__(self):
        self.model = Model().cuda().half().eval()
        self.bank = AdapterBank(self.model)
        self.loader = AdapterLoader(self.bank)

    @torch.inference_mode()
    def handle(self, requests):
        outputs = []
        for name, ids in requests:
            self.loader.activate(name)
            self.loader.before_forward()
            outputs.append(self.model(ids).argmax(-1))
        return torch.stack(outputs).cpu()


def main():
    torch.manual_seed(0)
    srv = Server()
    names = [f"tenant{i}" for i in range(4)]
    for i, n in enumerate(names):
        srv.bank.register(n, i)
    torch.cuda.synchronize()
    ids = torch.randint(8000, (16, 64), device="cuda")
    reqs = [(names[i % len(names)], ids) for i in range(24)]
    out = srv.handle(reqs)
    for n, row in zip(names, out[: len(names)]):
        print(n, row[:6].tolist())


if __name__ == "__main__":
    main()
