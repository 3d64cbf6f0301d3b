"""Captured forward/backward/update with per-step statistics."""
import torch
import torch.nn as nn


class CapturedTrainer:
    def __init__(self, net, lr, batch_shape):
        self.net = net
        self.opt = torch.optim.SGD(net.parameters(), lr=lr)
        self.inputs = torch.zeros(batch_shape, device="cuda")
        self.targets = torch.zeros(batch_shape[0], 1, device="cuda")
        self.graph = None
        self.outputs = {}

    def _iteration(self):
        self.opt.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(self.net(self.inputs), self.targets)
        loss.backward()
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.net.parameters()])
        self.opt.step()
        return {"loss": loss.detach(), "grad_norm": norm}

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._iteration()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.outputs = self._iteration()

    def train_step(self, x, y):
        self.inputs.copy_(x)
        self.targets.copy_(y)
        self.graph.replay()
        return self.outputs


def main():
    net = nn.Sequential(nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 1)).cuda()
    trainer = CapturedTrainer(net, 1e-2, (64, 128))
    trainer.capture()
    history = []
    for _ in range(400):
        x = torch.randn(64, 128, device="cuda")
        stats = trainer.train_step(x, x.sum(1, keepdim=True))
        history.append(stats["loss"])
    curve = torch.stack(history).cpu()
    print(curve[:10].mean(), curve[-10:].mean())


if __name__ == "__main__":
    main()
