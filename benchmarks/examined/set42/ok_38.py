"""Offloaded policy whose host tensors are handed out lazily."""
from typing import Dict, Iterator, Optional, Tuple

import torch
import torch.nn as nn


class Offloader:
    def __init__(self, module: nn.Module):
        self.module = module
        self.host: Dict[str, torch.Tensor] = {}
        self.done: Optional[torch.cuda.Event] = None
        self.stream = torch.cuda.Stream()

    def start(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for name, p in self.module.named_parameters():
                if name not in self.host:
                    self.host[name] = torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
                self.host[name].copy_(p.detach(), non_blocking=True)
            self.done = torch.cuda.Event()
            self.done.record()

    def release_gate(self):
        """The next in-place update of the parameters goes after the copies."""
        if self.done is not None:
            torch.cuda.current_stream().wait_event(self.done)

    def items(self) -> Iterator[Tuple[str, torch.Tensor]]:
        self.done.synchronize()
        for name, tensor in self.host.items():
            yield name, tensor


class Quantizer:
    def __init__(self, bits: int = 8):
        self.limit = 2 ** (bits - 1) - 1

    def __call__(self, tensors: Iterator[Tuple[str, torch.Tensor]]):
        packed = {}
        for name, t in tensors:
            scale = t.abs().amax().clamp(min=1e-8) / self.limit
            packed[name] = ((t / scale).round().to(torch.int8), float(scale))
        return packed


class Policy:
    def __init__(self, dim: int = 1024, layers: int = 6):
        self.net = nn.Sequential(*[nn.Linear(dim, dim) for _ in range(layers)]).cuda()
        self.offloader = Offloader(self.net)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=1e-2)
        self.dim = dim

    def train(self):
        x = torch.randn(64, self.dim, device="cuda")
        loss = (self.net(x) - x).square().mean()
        self.opt.zero_grad()
        loss.backward()
        self.offloader.release_gate()
        self.opt.step()
        return loss.detach()

    def export(self, quantizer: Quantizer):
        tensors = self.offloader.items()
        self.offloader.start()
        return quantizer(tensors)


def main(rounds: int = 12):
    policy = Policy()
    quantizer = Quantizer()
    losses, scales = [], []
    for _ in range(rounds):
        losses.append(policy.train())
        packed = policy.export(quantizer)
        scales.append(sum(s for _, s in packed.values()))
    print(torch.stack(losses).tolist()[-1], scales[-1])


if __name__ == "__main__":
    main()
