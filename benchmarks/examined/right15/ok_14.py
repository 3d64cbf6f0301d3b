"""Dynamic loss scale decided on the host from the flag of the previous step."""
import torch
from torch import nn


class DelayedScaler:
    def __init__(self, device, scale=2.0 ** 14, growth_every=200):
        self.device = torch.device(device)
        self.scale = scale
        self.growth_every = growth_every
        self._used = scale
        self._good = 0
        self._flag = torch.empty(1, pin_memory=True)
        self._copied = torch.cuda.Event()
        self._outstanding = False

    def _settle(self):
        if not self._outstanding:
            return
        self._copied.synchronize()
        self._outstanding = False
        if self._flag.item():
            self.scale = max(1.0, self.scale / 2)
            self._good = 0
        else:
            self._good += 1
            if self._good % self.growth_every == 0:
                self.scale *= 2

    def scaled(self, loss):
        self._used = self.scale
        return loss * self.scale

    @torch.no_grad()
    def finish(self, params):
        grads = [p.grad for p in params if p.grad is not None]
        if not grads:
            return
        torch._foreach_mul_(grads, 1.0 / self._used)
        norm = torch.stack(torch._foreach_norm(grads)).norm()
        bad = (~torch.isfinite(norm)).float().reshape(1)
        for g in grads:
            g.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0).mul_(1.0 - bad)
        self._settle()
        self._flag.copy_(bad, non_blocking=True)
        self._copied.record()
        self._outstanding = True

    def state_dict(self):
        self._settle()
        return {"scale": self.scale, "good": self._good}

    def load_state_dict(self, state):
        self._settle()
        self.scale, self._good = state["scale"], state["good"]


def main():
    device = torch.device("cuda")
    model = nn.Linear(512, 512).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = DelayedScaler(device)
    for _ in range(100):
        x = torch.randn(64, 512, device=device)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).float().square().mean()
        scaler.scaled(loss).backward()
        scaler.finish(list(model.parameters()))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    print(scaler.state_dict())


if __name__ == "__main__":
    main()
