"""Averaged weights kept by a side stream, tied to the optimizer by hooks."""
import copy

import torch
from torch import nn


class SideAverage:
    def __init__(self, module, optimizer, decay=0.999):
        self.decay = decay
        self.source = [p for p in module.parameters()]
        self.device = self.source[0].device
        self.stream = torch.cuda.Stream(self.device)
        self.module = copy.deepcopy(module).requires_grad_(False).eval()
        self.target = list(self.module.parameters())
        for p in self.source + self.target:
            p.data.record_stream(self.stream)
        self._pre = optimizer.register_step_pre_hook(self._before)
        self._post = optimizer.register_step_post_hook(self._after)

    def _before(self, *_):
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    @torch.no_grad()
    def _after(self, *_):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            torch._foreach_lerp_([t.data for t in self.target],
                                 [s.data for s in self.source], 1 - self.decay)

    def __call__(self, *args):
        self._before()
        with torch.no_grad():
            return self.module(*args)

    def detach(self):
        self._before()
        self._pre.remove()
        self._post.remove()
        return self.module


def main(steps=100):
    device = torch.device("cuda", torch.cuda.current_device())
    model = nn.Sequential(nn.Linear(32, 128), nn.Tanh(), nn.Linear(128, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    average = SideAverage(model, optimizer, decay=0.95)
    held_out = torch.randn(512, 32, device=device)
    for step in range(steps):
        x = torch.randn(64, 32, device=device)
        loss = (model(x) - x.norm(dim=1, keepdim=True)).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 25 == 24:
            error = average(held_out) - held_out.norm(dim=1, keepdim=True)
            print(step, error.square().mean().item())
    final = average.detach()
    print(final(held_out).mean().item())


if __name__ == "__main__":
    main()
