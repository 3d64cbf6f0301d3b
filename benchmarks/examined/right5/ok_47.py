import torch
from torch import nn


class OptimizerOffloader:
    """Moves Adam state to pinned memory while rollouts run, and back before training."""

    def __init__(self, opt: torch.optim.Optimizer):
        self.opt = opt
        self.stream = torch.cuda.Stream()
        self.host = {}
        self.away = False

    def _tensors(self):
        for p, st in self.opt.state.items():
            for key, value in st.items():
                if isinstance(value, torch.Tensor) and value.numel() > 1:
                    yield (p, key), value

    def offload(self):
        items = list(self._tensors())
        for ref, t in items:
            if ref not in self.host:
                self.host[ref] = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            torch._foreach_copy_([self.host[r] for r, _ in items], [t for _, t in items], non_blocking=True)
            copied = self.stream.record_event()
        copied.synchronize()
        for (p, key), _ in items:
            self.opt.state[p][key] = self.host[(p, key)]
        self.away = True

    def onload(self):
        if not self.away:
            return None
        device_copies = {}
        with torch.cuda.stream(self.stream):
            for ref, host in self.host.items():
                device_copies[ref] = host.to("cuda", non_blocking=True)
            done = self.stream.record_event()
        torch.cuda.current_stream().wait_event(done)
        for (p, key), t in device_copies.items():
            t.record_stream(torch.cuda.current_stream())
            self.opt.state[p][key] = t
        self.away = False
        return done


def main():
    net = nn.Sequential(nn.Linear(512, 4096), nn.ReLU(), nn.Linear(4096, 512)).cuda()
    opt = torch.optim.Adam(net.parameters(), lr=1e-4)
    mover = OptimizerOffloader(opt)
    for phase in range(5):
        mover.onload()
        for _ in range(10):
            net(torch.randn(64, 512, device="cuda")).square().mean().backward()
            opt.step()
            opt.zero_grad(set_to_none=True)
        mover.offload()
        with torch.no_grad():
            rollout = torch.randn(4096, 512, device="cuda")
            for _ in range(8):
                rollout = torch.tanh(net(rollout))
        print(phase, rollout.std().item())


if __name__ == "__main__":
    main()
