import torch
from torch import nn

from jitter import Jitter
from whiten import Whitener


class Preprocessor:
    def __init__(self, stages):
        self.stages = list(stages)

    def __call__(self, batch):
        for stage in self.stages:
            stage.apply(batch)
        for stage in self.stages:
            stage.join()
        return batch


def train(steps=100):
    prep = Preprocessor([Whitener([0.48, 0.45, 0.40], [0.22, 0.22, 0.22]), Jitter()])
    net = nn.Sequential(nn.Conv2d(3, 32, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)).to("cuda")
    net(torch.zeros(1, 3, 64, 64, device="cuda"))
    opt = torch.optim.AdamW(net.parameters(), lr=3e-4)
    for _ in range(steps):
        images = torch.rand(128, 3, 64, 64, device="cuda")
        labels = torch.randint(0, 10, (128,), device="cuda")
        loss = nn.functional.cross_entropy(net(prep(images)), labels)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    return loss.item()


if __name__ == "__main__":
    print(train())
