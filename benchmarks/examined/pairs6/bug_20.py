"""Adaptive gradient clipping: unit-wise ratios are computed on a helper stream."""
import torch
import torch.nn as nn


def unitwise_norm(x):
    return x.flatten(1).norm(dim=1).view(-1, *([1] * (x.dim() - 1))) if x.dim() > 1 else x.abs()


class AdaptiveClipper:
    def __init__(self, module, clipping=0.01, eps=1e-3):
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.clipping, self.eps = clipping, eps
        self.helper = torch.cuda.Stream()
        self.ratios = []

    @torch.no_grad()
    def compute(self):
        self.helper.wait_stream(torch.cuda.current_stream())
        self.ratios.clear()
        with torch.cuda.stream(self.helper):
            for p in self.params:
                limit = unitwise_norm(p).clamp_(min=self.eps).mul_(self.clipping)
                norm = unitwise_norm(p.grad).clamp_(min=1e-6)
                self.ratios.append((limit / norm).clamp_(max=1.0))

    @torch.no_grad()
    def scale_gradients(self):
        main = torch.cuda.current_stream()
        for p, ratio in zip(self.params, self.ratios):
            p.grad.mul_(ratio)
            ratio.record_stream(main)
        main.wait_stream(self.helper)


def make_model():
    layers, c = [], 3
    for width in (64, 128, 256):
        layers += [nn.Conv2d(c, width, 3, stride=2, padding=1), nn.GELU()]
        c = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 100))


def main():
    model = make_model().cuda()
    clipper = AdaptiveClipper(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    for _ in range(2000):
        images = torch.randn(256, 3, 64, 64, device="cuda")
        labels = torch.randint(0, 100, (256,), device="cuda")
        optimizer.zero_grad(set_to_none=True)
        criterion(model(images), labels).backward()
        clipper.compute()
        clipper.scale_gradients()
        optimizer.step()


if __name__ == "__main__":
    main()
