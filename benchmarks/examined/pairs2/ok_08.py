"""Loss scaler which learns about overflows one step late."""
import torch
import torch.nn as nn


class LaggedScaler:
    def __init__(self, init_scale=2.0 ** 16, growth_interval=200):
        self.scale = init_scale
        self.growth_interval = growth_interval
        self.clean_steps = 0
        self.flag = torch.zeros((), pin_memory=True)
        self.flag_copied = None

    def _resolve(self):
        if self.flag_copied is None:
            return
        self.flag_copied.synchronize()
        if self.flag.item() > 0:
            self.scale /= 2
            self.clean_steps = 0
        else:
            self.clean_steps += 1
            if self.clean_steps % self.growth_interval == 0:
                self.scale *= 2
        self.flag_copied = None

    def backward(self, loss):
        self._resolve()
        (loss * self.scale).backward()

    @torch.no_grad()
    def step(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        found_inf = torch.zeros((), device=grads[0].device)
        torch._amp_foreach_non_finite_check_and_unscale_(grads, found_inf, found_inf.new_full((), 1.0 / self.scale))
        for g in grads:
            g.copy_(torch.where(found_inf > 0, torch.zeros_like(g), g))
        optimizer.step()
        self.flag.copy_(found_inf, non_blocking=True)
        self.flag_copied = torch.cuda.Event()
        self.flag_copied.record()


def main():
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = LaggedScaler()
    for _ in range(1000):
        x = torch.randn(64, 512, device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).float().pow(2).mean()
        opt.zero_grad()
        scaler.backward(loss)
        scaler.step(opt)
    print(scaler.scale)


if __name__ == "__main__":
    main()
