"""Whole-step capture with a warmup schedule for the learning rate."""
import torch
import torch.nn as nn


class WarmupSchedule:
    def __init__(self, optimizer, peak, steps):
        self.optimizer, self.peak, self.steps = optimizer, peak, steps
        self.count = 0
        self.advance()

    def advance(self):
        self.count += 1
        factor = min(1.0, self.count / self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = self.peak * factor


class CapturedLoop:
    def __init__(self, model, optimizer, sample):
        self.model, self.optimizer = model, optimizer
        self.sample = sample.clone()
        self.graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(4):
                self.body()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.loss = self.body()

    def body(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.model(self.sample).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def replay(self, batch):
        self.sample.copy_(batch)
        self.graph.replay()


def main():
    model = nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 512)).cuda()
    opt = torch.optim.Adam(model.parameters(), lr=1e-6, capturable=True)
    schedule = WarmupSchedule(opt, peak=1e-3, steps=500)
    loop = CapturedLoop(model, opt, torch.randn(128, 512, device="cuda"))
    for step in range(2000):
        loop.replay(torch.randn(128, 512, device="cuda"))
        schedule.advance()
        if step % 250 == 0:
            print(step, loop.loss.item())


if __name__ == "__main__":
    main()
