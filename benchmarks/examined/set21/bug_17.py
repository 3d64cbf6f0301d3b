from typing import Any, Dict, List

import numpy as np
import torch
import torch.nn as nn


def move_data(data: Any, device: torch.device, non_blocking: bool = True) -> Any:
    if isinstance(data, torch.Tensor):
        return data.to(device, non_blocking=non_blocking)
    if isinstance(data, dict):
        return {k: move_data(v, device, non_blocking) for k, v in data.items()}
    if isinstance(data, (list, tuple)):
        return type(data)(move_data(v, device, non_blocking) for v in data)
    return data


class SegmentationHead(nn.Module):
    def __init__(self, channels: int, classes: int):
        super().__init__()
        self.body = nn.Conv2d(3, channels, 3, padding=1)
        self.mask = nn.Conv2d(channels, classes, 1)
        self.depth = nn.Conv2d(channels, 1, 1)

    def forward(self, images: torch.Tensor) -> Dict[str, torch.Tensor]:
        features = torch.relu(self.body(images))
        return {"mask": self.mask(features).argmax(dim=1), "depth": self.depth(features).squeeze(1)}


class Evaluator:
    """Accumulates IoU and depth error on the host."""

    def __init__(self, classes: int):
        self.classes = classes
        self.intersection = np.zeros(classes)
        self.union = np.zeros(classes)
        self.depth_errors: List[float] = []

    def update(self, predictions: Dict[str, torch.Tensor], batch: Dict[str, torch.Tensor]) -> None:
        mask = predictions["mask"].numpy()
        truth = batch["mask"].numpy()
        for c in range(self.classes):
            p, t = mask == c, truth == c
            self.intersection[c] += np.logical_and(p, t).sum()
            self.union[c] += np.logical_or(p, t).sum()
        self.depth_errors.append(float(np.abs(predictions["depth"].numpy() - batch["depth"].numpy()).mean()))

    def summary(self) -> Dict[str, float]:
        iou = self.intersection / np.maximum(self.union, 1)
        return {"miou": float(iou.mean()), "depth": float(np.mean(self.depth_errors))}


class Trainer:
    def __init__(self, model: nn.Module, classes: int):
        self.device = torch.device("cuda:0")
        self.host = torch.device("cpu")
        self.model = model.to(self.device).eval()
        self.evaluator = Evaluator(classes)

    @torch.inference_mode()
    def evaluate(self, loader) -> Dict[str, float]:
        for batch in loader:
            images = move_data(batch["images"].pin_memory(), self.device)
            predictions = move_data(self.model(images), self.host)
            self.evaluator.update(predictions, batch)
        return self.evaluator.summary()


def synthetic(batches: int, classes: int):
    for _ in range(batches):
        yield {
            "images": torch.rand(8, 3, 512, 512),
            "mask": torch.randint(0, classes, (8, 512, 512)),
            "depth": torch.rand(8, 512, 512),
        }


def main() -> Dict[str, float]:
    return Trainer(SegmentationHead(256, 19), 19).evaluate(synthetic(32, 19))
