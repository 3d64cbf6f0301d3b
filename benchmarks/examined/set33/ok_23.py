from typing import Dict

import torch


class ConfusionMeter:
    def __init__(self, num_classes: int, device="cuda"):
        self.num_classes = num_classes
        self.device = torch.device(device)
        self.matrix = torch.zeros(num_classes, num_classes, dtype=torch.int64, device=self.device)
        self._host = torch.zeros(num_classes, num_classes, dtype=torch.int64, pin_memory=True)
        self._loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)

    @torch.no_grad()
    def update(self, logits: torch.Tensor, target: torch.Tensor, loss: torch.Tensor) -> None:
        pred = logits.argmax(dim=1)
        index = target * self.num_classes + pred
        ones = torch.ones_like(index)
        self.matrix.view(-1).scatter_add_(0, index, ones)
        self._loss_sum.add_(loss.double() * target.numel())

    def compute(self) -> Dict[str, object]:
        self._host.copy_(self.matrix, non_blocking=True)
        total = self.matrix.sum()
        mean_loss = self._loss_sum / total.clamp_min(1)
        loss = mean_loss.item()
        counts = self._host.numpy()
        support = counts.sum(axis=1)
        recall = counts.diagonal() / support.clip(min=1)
        return {
            "loss": loss,
            "recall": recall.tolist(),
            "accuracy": float(counts.diagonal().sum() / max(int(support.sum()), 1)),
        }

    def reset(self) -> None:
        self.matrix.zero_()
        self._loss_sum.zero_()


@torch.no_grad()
def evaluate(model, loader, num_classes: int, log_every: int = 50):
    meter = ConfusionMeter(num_classes)
    criterion = torch.nn.CrossEntropyLoss()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    history = []
    with torch.cuda.stream(stream):
        meter.reset()
        for i, (images, target) in enumerate(loader):
            images = images.cuda(non_blocking=True)
            target = target.cuda(non_blocking=True)
            logits = model(images)
            meter.update(logits, target, criterion(logits, target))
            if (i + 1) % log_every == 0:
                history.append(meter.compute())
        history.append(meter.compute())
    torch.cuda.current_stream().wait_stream(stream)
    return history
