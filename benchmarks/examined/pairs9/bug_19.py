"""Per-layer activation statistics gathered with forward hooks and polled by the trainer."""
from collections import deque

import torch
from torch import nn


class Pending:
    def __init__(self, name, host, event):
        self.name = name
        self.host = host
        self.event = event

    def ready(self):
        return self.event.query()


class ActivationMonitor:
    def __init__(self, model, types=(nn.Linear,)):
        self.copy_stream = torch.cuda.Stream()
        self.pending = deque()
        self.summary = {}
        for name, module in model.named_modules():
            if isinstance(module, types):
                module.register_forward_hook(self._make_hook(name))

    def _make_hook(self, name):
        def hook(module, args, output):
            stats = torch.stack([output.mean(), output.std(), output.abs().amax()]).detach()
            self._download(name, stats)

        return hook

    def _download(self, name, stats):
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            host = stats.to("cpu", non_blocking=True)
        stats.record_stream(self.copy_stream)
        event = torch.cuda.Event()
        event.record()
        self.pending.append(Pending(name, host, event))

    def poll(self):
        while self.pending and self.pending[0].ready():
            item = self.pending.popleft()
            mean, std, peak = item.host.tolist()
            self.summary[item.name] = (mean, std, max(peak, self.summary.get(item.name, (0, 0, 0))[2]))


def main():
    model = nn.Sequential(*[nn.Sequential(nn.Linear(2048, 2048), nn.Tanh()) for _ in range(12)]).cuda()
    monitor = ActivationMonitor(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(100):
        x = torch.randn(512, 2048, device="cuda")
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.poll()
    for name, stats in monitor.summary.items():
        print(name, *stats)


if __name__ == "__main__":
    main()
