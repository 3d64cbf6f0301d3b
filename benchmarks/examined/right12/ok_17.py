import torch
from torch import nn


class HostMomentum:
    """SGD with momentum whose master weights and momenta live in host memory."""

    def __init__(self, params, lr=1e-2, momentum=0.9):
        self.params = [p for p in params if p.requires_grad]
        self.lr = lr
        self.momentum = momentum
        self.device = self.params[0].device
        self.down = torch.cuda.Stream(self.device)
        self.up = torch.cuda.Stream(self.device)
        self.master = [torch.empty(p.shape, pin_memory=True).copy_(p.detach()) for p in self.params]
        self.velocity = [torch.zeros(p.shape) for p in self.params]
        self.grads = [torch.empty(p.shape, pin_memory=True) for p in self.params]
        self.arrived = {}
        self.uploaded = {}
        for index, param in enumerate(self.params):
            param.register_post_accumulate_grad_hook(self._make_hook(index))

    def _make_hook(self, index):
        def hook(param):
            if index in self.arrived:
                return
            self.down.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(self.down):
                self.grads[index].copy_(param.grad, non_blocking=True)
                self.arrived[index] = self.down.record_event()
            param.grad.record_stream(self.down)
            param.grad = None
        return hook

    def discard(self):
        for event in self.arrived.values():
            event.synchronize()
        self.arrived.clear()
        for param in self.params:
            param.grad = None

    @torch.no_grad()
    def step(self):
        current = torch.cuda.current_stream(self.device)
        self.up.wait_stream(current)
        for index in sorted(self.arrived, reverse=True):
            self.arrived[index].synchronize()
            if index in self.uploaded:
                self.uploaded[index].synchronize()
            self.velocity[index].mul_(self.momentum).add_(self.grads[index])
            self.master[index].add_(self.velocity[index], alpha=-self.lr)
            with torch.cuda.stream(self.up):
                self.params[index].copy_(self.master[index], non_blocking=True)
                self.uploaded[index] = self.up.record_event()
        self.arrived.clear()
        current.wait_stream(self.up)


class Trainer:
    def __init__(self, width=256):
        self._model = nn.Sequential(nn.Linear(width, 512), nn.Tanh(), nn.Linear(512, width)).cuda()
        self._opt = HostMomentum(self._model.parameters())

    def step(self, x, y):
        loss = nn.functional.mse_loss(self._model(x), y)
        try:
            loss.backward()
        except BaseException:
            self._opt.discard()
            raise
        self._opt.step()
        return loss.item()

    def predict(self, x):
        with torch.no_grad():
            return self._model(x)


def main():
    torch.manual_seed(0)
    trainer = Trainer()
    mix = torch.randn(256, 256, device="cuda") / 16
    for step in range(100):
        x = torch.randn(128, 256, device="cuda")
        loss = trainer.step(x, x @ mix)
        if step % 20 == 0:
            print(step, loss)
    print(trainer.predict(torch.zeros(2, 256, device="cuda")).norm().item())


if __name__ == "__main__":
    main()
