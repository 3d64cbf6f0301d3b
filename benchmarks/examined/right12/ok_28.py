import torch
from torch import nn


class ShardedNorm:
    """Computes one gradient norm from groups handled on separate streams."""

    def __init__(self, params, lanes=3):
        self.params = list(params)
        self.device = self.params[0].device
        self.lanes = [torch.cuda.Stream(self.device) for _ in range(lanes)]
        self.parts = torch.zeros(lanes, device=self.device)
        self.host = torch.zeros(1, pin_memory=True)

    def measure(self):
        current = torch.cuda.current_stream(self.device)
        self.parts.zero_()
        start = current.record_event()
        for number, lane in enumerate(self.lanes):
            grads = [p.grad for p in self.params[number::len(self.lanes)] if p.grad is not None]
            if not grads:
                continue
            lane.wait_event(start)
            with torch.cuda.stream(lane):
                norms = torch._foreach_norm(grads)
                self.parts[number].copy_(torch.stack(norms).square().sum())
            current.wait_stream(lane)
        norm = self.parts.sum().sqrt_()
        self.host.copy_(norm.view(1), non_blocking=True)
        current.synchronize()
        return self.host.item()


class ScaledTrainer:
    def __init__(self, model, scale=2.0 ** 12, limit=1.0):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=0.05)
        self.norm = ShardedNorm(model.parameters())
        self.scale = scale
        self.limit = limit
        self.clean = 0

    def _adjust(self, finite):
        if not finite:
            self.scale = max(self.scale / 2, 1.0)
            self.clean = 0
            return
        self.clean += 1
        if self.clean == 50:
            self.scale *= 2
            self.clean = 0

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(self.model(x).float(), y)
        (loss * self.scale).backward()
        scale = self.scale
        norm = self.norm.measure() / scale
        finite = norm == norm and norm != float("inf")
        self._adjust(finite)
        if not finite:
            return None
        factor = min(1.0, self.limit / (norm + 1e-6)) / scale
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        torch._foreach_mul_(grads, factor)
        self.opt.step()
        return norm


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128)).cuda()
    trainer = ScaledTrainer(net, scale=2.0 ** 20)
    skipped = 0
    for step in range(150):
        x = torch.randn(256, 128, device="cuda")
        norm = trainer.step(x, x.flip(1))
        skipped += norm is None
        if step % 30 == 0:
            print(step, norm, trainer.scale)
    print("skipped", skipped)


if __name__ == "__main__":
    main()
