import torch
from torch import nn


class HostAdam:
    """Adam on the host for one parameter, with pinned gradient and weight."""

    def __init__(self, param, lr=1e-3):
        self.param = param
        self.lr = lr
        self.grad = torch.empty(param.shape, pin_memory=True)
        self.weight = param.detach().cpu().pin_memory()
        self.m = torch.zeros(param.shape)
        self.v = torch.zeros(param.shape)
        self.t = 0
        self.grad_ready = torch.cuda.Event()

    def step(self):
        self.grad_ready.synchronize()
        self.t += 1
        self.m.lerp_(self.grad, 0.1)
        self.v.mul_(0.999).addcmul_(self.grad, self.grad, value=0.001)
        denom = (self.v / (1 - 0.999**self.t)).sqrt_().add_(1e-8)
        self.weight.addcdiv_(self.m, denom, value=-self.lr / (1 - 0.9**self.t))


class OffloadedOptimizer:
    def __init__(self, model):
        self.d2h = torch.cuda.Stream()
        self.h2d = torch.cuda.Stream()
        self.pending = {}
        self.states = {}
        for module in model.modules():
            own = list(module.parameters(recurse=False))
            if not own:
                continue
            module.register_forward_pre_hook(self._before_forward)
            for p in own:
                self.states[p] = HostAdam(p)
                p.register_post_accumulate_grad_hook(self._grad_hook)

    def _grad_hook(self, p):
        state = self.states[p]
        self.d2h.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h):
            state.grad.copy_(p.grad, non_blocking=True)
            state.grad_ready.record()
        p.grad.record_stream(self.d2h)
        p.grad = None

    def _before_forward(self, module, args):
        event = self.pending.pop(module, None)
        if event is not None:
            torch.cuda.current_stream().wait_event(event)

    def step(self, model):
        self.h2d.wait_stream(torch.cuda.current_stream())
        self.h2d.synchronize()
        for module in model.modules():
            own = [p for p in module.parameters(recurse=False)]
            if not own:
                continue
            for p in own:
                self.states[p].step()
                with torch.cuda.stream(self.h2d), torch.no_grad():
                    p.copy_(self.states[p].weight, non_blocking=True)
            self.pending[module] = self.h2d.record_event()


def main():
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 1))
    model.cuda()
    opt = OffloadedOptimizer(model)
    for step in range(100):
        x = torch.randn(512, 256, device="cuda")
        loss = (model(x) - x.mean(1, keepdim=True)).square().mean()
        loss.backward()
        opt.step(model)
        if step % 10 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
