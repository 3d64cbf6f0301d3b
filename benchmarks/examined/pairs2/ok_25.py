"""Forward and backward as a graph, the optimizer eager."""
import torch
import torch.nn as nn


class GraphedForwardBackward:
    def __init__(self, model, example):
        self.model = model
        self.x = example.clone()
        self.scale = torch.ones((), device=example.device)
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(3):
                self._run()
                self.model.zero_grad(set_to_none=True)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._run()

    def _run(self):
        loss = self.model(self.x).pow(2).mean()
        (loss * self.scale).backward()
        return loss

    def __call__(self, x, scale):
        self.x.copy_(x)
        self.scale.fill_(scale)
        self.graph.replay()
        return self.loss


def main():
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512)).cuda()
    graphed = GraphedForwardBackward(model, torch.randn(64, 512, device="cuda"))
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 1000)
    running = torch.zeros((), device="cuda")
    for step in range(1000):
        x = torch.randn(64, 512, device="cuda")
        loss = graphed(x, scale=1.0 if step > 100 else step / 100)
        running.lerp_(loss.detach(), 0.01)
        opt.step()
        sched.step()
    print(running.item())


if __name__ == "__main__":
    main()
