"""Interleaved evaluation on a second stream that reports through CPU tensors."""
import torch
from torch import nn


class SideEvaluator:
    def __init__(self, model, batches):
        self.model = model
        self.batches = batches
        self.stream = torch.cuda.Stream()

    @torch.no_grad()
    def accuracy(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        correct, seen = 0, 0
        with torch.cuda.stream(self.stream):
            for x, y in self.batches:
                predicted = self.model(x.to("cuda")).argmax(-1).cpu()
                correct += int((predicted == y).sum())
                seen += y.numel()
        return correct / seen


def synthetic(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 32, generator=g)
    return x, (x[:, 0] * x[:, 1] > 0).long()


def main(epochs=5):
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 2)).cuda()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    evaluator = SideEvaluator(model, [synthetic(512, 1000 + i) for i in range(8)])
    for epoch in range(epochs):
        for i in range(100):
            x, y = (t.cuda() for t in synthetic(256, epoch * 100 + i))
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        print(epoch, evaluator.accuracy())


if __name__ == "__main__":
    main()
