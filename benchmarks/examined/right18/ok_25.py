"""Two-stage model split over two GPUs, fed with micro-batches."""
import torch
import torch.nn as nn


class Stage:
    def __init__(self, module, device):
        self.device = torch.device(device)
        self.module = module.to(self.device).eval()
        self.stream = torch.cuda.Stream(self.device)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))

    def run(self, x):
        with torch.cuda.stream(self.stream):
            return self.module(x)


class SplitModel:
    def __init__(self, first, second):
        self.first = Stage(first, "cuda:0")
        self.second = Stage(second, "cuda:1")

    def _hand_off(self, x):
        with torch.cuda.stream(self.first.stream):
            with torch.cuda.stream(self.second.stream):
                return x.to(self.second.device, non_blocking=True)

    @torch.inference_mode()
    def __call__(self, batch, micro=4):
        home0 = torch.cuda.current_stream(self.first.device)
        home1 = torch.cuda.current_stream(self.second.device)
        self.first.stream.wait_stream(home0)
        self.second.stream.wait_stream(home1)
        results = []
        try:
            for piece in batch.chunk(micro):
                middle = self.first.run(piece)
                moved = self._hand_off(middle)
                results.append(self.second.run(moved))
                del middle, moved
            with torch.cuda.stream(self.second.stream):
                joined = torch.cat(results)
        finally:
            home0.wait_stream(self.first.stream)
            home1.wait_stream(self.second.stream)
        joined.record_stream(home1)
        return joined


def encoder(width, depth):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*layers)


def classify(model, batches):
    labels = []
    for batch in batches:
        scores = model(batch.to("cuda:0"))
        labels.append(scores.softmax(dim=-1).argmax(dim=-1).cpu())
    return torch.cat(labels) if labels else torch.empty(0, dtype=torch.long)


def main():
    model = SplitModel(encoder(1024, 6), encoder(1024, 6))
    data = [torch.randn(64, 1024) for _ in range(10)]
    return classify(model, data)
