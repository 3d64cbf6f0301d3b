"""Colocated actor: weights sleep in host memory while the rollout runs."""
import torch
from torch import nn


class Actor(nn.Module):
    def __init__(self, width=4096, depth=8):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


class Sleeper:
    def __init__(self, module):
        self.module = module
        self.side = torch.cuda.Stream()
        self.host = {
            name: torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
            for name, p in module.named_parameters()
        }
        self.bytes = {}

    @torch.no_grad()
    def sleep(self):
        self.side.wait_stream(torch.cuda.current_stream())
        for name, p in self.module.named_parameters():
            with torch.cuda.stream(self.side):
                self.host[name].copy_(p.data, non_blocking=True)
            storage = p.data.untyped_storage()
            self.bytes[name] = storage.nbytes()
            storage.resize_(0)

    @torch.no_grad()
    def wake(self):
        torch.cuda.current_stream().wait_stream(self.side)
        for name, p in self.module.named_parameters():
            p.data.untyped_storage().resize_(self.bytes[name])
            p.data.copy_(self.host[name], non_blocking=True)


class Rollout:
    def __init__(self, layers=8, tokens=1 << 13, width=4096):
        self.layers = layers
        self.shape = (tokens, width)

    def _empty_cache(self):
        return torch.full(self.shape, -1.0, device="cuda", dtype=torch.bfloat16)

    def generate(self, steps=4):
        caches = [self._empty_cache() for _ in range(self.layers)]
        for k in range(steps):
            for cache in caches:
                cache[k] += k
        return sum(cache.float().mean().item() for cache in caches)


def main(rounds=3):
    torch.manual_seed(0)
    actor = Actor().cuda()
    sleeper = Sleeper(actor)
    rollout = Rollout()
    probe = torch.randn(64, 4096, device="cuda")
    with torch.no_grad():
        before = actor(probe)
    torch.cuda.synchronize()
    for r in range(rounds):
        sleeper.sleep()
        score = rollout.generate()
        sleeper.wake()
        with torch.no_grad():
            drift = (actor(probe) - before).abs().max().item()
        print("round", r, "score", round(score, 4), "drift", drift)


if __name__ == "__main__":
    main()
