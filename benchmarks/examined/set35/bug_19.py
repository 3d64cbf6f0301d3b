"""Detector wrapper that serves a model on a chosen GPU from a shared process."""
from typing import Dict, List, Tuple

import torch
import torch.nn as nn


class Backbone(nn.Module):
    def __init__(self, width: int = 64):
        super().__init__()
        layers: List[nn.Module] = [nn.Conv2d(3, width, 7, stride=2, padding=3), nn.SiLU()]
        for _ in range(4):
            layers += [nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.SiLU()]
            width *= 2
        self.body = nn.Sequential(*layers)
        self.head = nn.Conv2d(width, 85, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x)).flatten(2).transpose(1, 2)


class StaticShapeRunner:
    """Keeps one static input per shape and runs the model on a dedicated stream."""

    def __init__(self, model: nn.Module, device: torch.device):
        self.model = model
        self.device = device
        self.stream = torch.cuda.Stream(device=device)
        self.inputs: Dict[Tuple[int, ...], torch.Tensor] = {}

    def _static_input(self, shape: torch.Size) -> torch.Tensor:
        key = tuple(shape)
        if key not in self.inputs:
            self.inputs[key] = torch.empty(shape, device=self.device)
        return self.inputs[key]

    @torch.inference_mode()
    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        static = self._static_input(batch.shape)
        static.copy_(batch, non_blocking=True)
        static.sub_(114.0 / 255.0).div_(0.25)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            out = self.model(static)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        out.record_stream(torch.cuda.current_stream(self.device))
        return out


class Detector:
    def __init__(self, device: str, threshold: float = 0.5):
        self.device = torch.device(device)
        self.threshold = threshold
        self.model = Backbone().to(self.device).eval()
        self.runner = StaticShapeRunner(self.model, self.device)

    def preprocess(self, images: List[torch.Tensor]) -> torch.Tensor:
        batch = torch.stack([img.float() / 255.0 for img in images])
        return batch.pin_memory()

    def postprocess(self, raw: torch.Tensor) -> List[int]:
        scores = torch.sigmoid(raw[..., 4])
        return (scores > self.threshold).sum(dim=1).tolist()

    def detect(self, images: List[torch.Tensor]) -> List[int]:
        batch = self.preprocess(images)
        return self.postprocess(self.runner(batch))


class Service:
    """One detector per GPU; requests are spread round-robin."""

    def __init__(self):
        self.detectors = [Detector(f"cuda:{i}") for i in range(torch.cuda.device_count())]
        for i in range(torch.cuda.device_count()):
            torch.cuda.synchronize(i)
        self.turn = 0

    def handle(self, images: List[torch.Tensor]) -> List[int]:
        detector = self.detectors[self.turn % len(self.detectors)]
        self.turn += 1
        return detector.detect(images)


def main() -> None:
    service = Service()
    for _ in range(16):
        images = [torch.randint(0, 256, (3, 640, 640), dtype=torch.uint8) for _ in range(16)]
        print(service.handle(images))


if __name__ == "__main__":
    main()
