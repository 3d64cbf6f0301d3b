"""Optimizer steps fused into backward on a side stream."""
import torch
import torch.nn as nn


class FusedBackwardSGD:
    def __init__(self, model, lr):
        self.lr = lr
        self.stream = torch.cuda.Stream()
        self.updated = {}
        for module in model.modules():
            own = list(module.parameters(recurse=False))
            if not own:
                continue
            for p in own:
                self.updated[p] = torch.cuda.Event()
                p.register_post_accumulate_grad_hook(self._update)
            module.register_forward_pre_hook(self._fence)

    def _update(self, p):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream), torch.no_grad():
            p.add_(p.grad, alpha=-self.lr)
            self.updated[p].record()
        p.grad.record_stream(self.stream)
        p.grad = None

    def _fence(self, module, args):
        stream = torch.cuda.current_stream()
        for p in module.parameters(recurse=False):
            event = self.updated[p]
            if not event.query():
                stream.wait_event(event)

    def synchronize(self):
        self.stream.synchronize()


def main():
    model = nn.Sequential(
        nn.Linear(1024, 4096), nn.LayerNorm(4096), nn.GELU(), nn.Linear(4096, 1024)
    ).cuda()
    fused = FusedBackwardSGD(model, lr=1e-2)
    for _ in range(300):
        x = torch.randn(64, 1024, device="cuda")
        (model(x) - x).pow(2).mean().backward()
    fused.synchronize()
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
