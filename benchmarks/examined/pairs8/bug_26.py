import torch
import torch.nn as nn


class StepOutput:
    def __init__(self, scores, copy_stream):
        self._src = scores
        copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(copy_stream):
            self._scores = torch.empty(scores.shape, pin_memory=True)
            self._scores.copy_(scores, non_blocking=True)
            self._copied = torch.cuda.Event()
            self._copied.record()

    @property
    def scores(self):
        self._copied.synchronize()
        return self._scores

    def mean(self):
        return float(self._scores.mean())


class Monitor:
    def __init__(self):
        self.history = []

    def observe(self, output):
        self.history.append(output.mean())


class RewardModel:
    def __init__(self, dim=1024):
        self.net = nn.Sequential(nn.Linear(dim, 4096), nn.SiLU(), nn.Linear(4096, 1)).cuda().eval()
        self.copy_stream = torch.cuda.Stream()

    @torch.no_grad()
    def __call__(self, features):
        return StepOutput(self.net(features).squeeze(-1), self.copy_stream)


def main():
    model, monitor = RewardModel(), Monitor()
    outputs = []
    for _ in range(32):
        out = model(torch.randn(4096, 1024, device="cuda"))
        monitor.observe(out)
        outputs.append(out)
    best = max(float(o.scores.max()) for o in outputs)
    print(best, sum(monitor.history) / len(monitor.history))


if __name__ == "__main__":
    main()
