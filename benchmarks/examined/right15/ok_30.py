"""Activation statistics gathered by forward hooks on a side stream."""
import torch
from torch import nn


class ActivationStats:
    def __init__(self, model, device, kinds=(nn.Linear, nn.Conv2d)):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.sums = {}
        self.counts = {}
        self._handles = []
        with torch.cuda.stream(self.stream):
            for name, module in model.named_modules():
                if isinstance(module, kinds):
                    self.sums[name] = torch.zeros(3, device=device)
                    self.counts[name] = 0
                    self._handles.append(
                        module.register_forward_hook(self._make_hook(name)))

    def _make_hook(self, name):
        def hook(module, args, output):
            with torch.no_grad():
                snapshot = output.detach().clone()
                self.stream.wait_stream(torch.cuda.current_stream(self.device))
                with torch.cuda.stream(self.stream):
                    row = torch.stack((snapshot.mean(), snapshot.square().mean(),
                                       (snapshot <= 0).float().mean()))
                    self.sums[name].add_(row)
                snapshot.record_stream(self.stream)
                self.counts[name] += 1
        return hook

    def report(self):
        with torch.cuda.stream(self.stream):
            rows = {name: total.tolist() for name, total in self.sums.items()}
        return {name: [v / max(self.counts[name], 1) for v in row]
                for name, row in rows.items()}

    def reset(self):
        with torch.cuda.stream(self.stream):
            for name, total in self.sums.items():
                total.zero_()
                self.counts[name] = 0

    def remove(self):
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


def build():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    model = build().to(device)
    stats = ActivationStats(model, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for _ in range(10):
            x = torch.randn(16, 3, 32, 32, device=device)
            loss = model(x).logsumexp(-1).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        for name, row in stats.report().items():
            print(epoch, name, [round(v, 4) for v in row])
        stats.reset()
    stats.remove()


if __name__ == "__main__":
    main()
