"""Optimizer fused into backward, running aside."""
import torch
from torch import nn


class SideStepper:
    def __init__(self, model: nn.Module, lr=1e-3):
        self.stream = torch.cuda.Stream()
        self.opts = {}
        self.handles = []
        for p in model.parameters():
            self.opts[p] = torch.optim.SGD([p], lr=lr)
            self.handles.append(p.register_post_accumulate_grad_hook(self._on_grad))
        self.ready = []

    def _on_grad(self, p):
        self.ready.append((p, torch.cuda.current_stream().record_event()))

    def step(self):
        done = torch.cuda.current_stream().record_event()
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(done)
            for p, event in self.ready:
                self.stream.wait_event(event)
                p.grad.record_stream(self.stream)
                self.opts[p].step()
                self.opts[p].zero_grad(set_to_none=True)
        self.ready.clear()

    def join(self, module, args):
        torch.cuda.current_stream().wait_stream(self.stream)

    def close(self):
        for h in self.handles:
            h.remove()


def run():
    net = nn.Sequential(nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 10)).cuda()
    stepper = SideStepper(net)
    net.register_forward_pre_hook(stepper.join)
    total = torch.zeros((), device="cuda")
    for _ in range(8):
        x = torch.randn(128, 1024, device="cuda")
        y = torch.randint(10, (128,), device="cuda")
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        stepper.step()
        total += loss.detach()
    stepper.close()
    return total.item()


if __name__ == "__main__":
    print(run())
