"""Training loop with a loader that keeps one batch ahead on its own stream."""
import torch
import torch.nn as nn


class AheadLoader:
    """Yields device batches; batch k + 1 is copied while batch k is in use."""

    def __init__(self, source, device):
        self.source = source
        self.device = torch.device(device)
        self.side = torch.cuda.Stream(self.device)

    def _preload(self, iterator):
        host = next(iterator, None)
        if host is None:
            return None
        self.side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.side):
            batch = {k: v.to(self.device, non_blocking=True) for k, v in host.items()}
            batch["image"] = batch["image"].float().div_(127.5).sub_(1.0)
            copied = self.side.record_event()
        return batch, copied

    def __iter__(self):
        iterator = iter(self.source)
        ahead = self._preload(iterator)
        while ahead is not None:
            batch, copied = ahead
            ahead = self._preload(iterator)
            torch.cuda.current_stream(self.device).wait_event(copied)
            yield batch


class Trainer:
    def __init__(self, model, lr=1e-3, device="cuda"):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)

    def epoch(self, source):
        running = torch.zeros((), device=self.device)
        for batch in AheadLoader(source, self.device):
            self.optimizer.zero_grad(set_to_none=True)
            logits = self.model(batch["image"])
            loss = nn.functional.cross_entropy(logits, batch["label"])
            loss.backward()
            self.optimizer.step()
            running += loss.detach()
        return running.item()


def synthetic(batches, size=64):
    for _ in range(batches):
        yield {
            "image": torch.randint(0, 256, (size, 3, 32, 32), dtype=torch.uint8).pin_memory(),
            "label": torch.randint(0, 10, (size,)).pin_memory(),
        }


if __name__ == "__main__":
    net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
                        nn.Flatten(), nn.Linear(512, 10))
    trainer = Trainer(net)
    for _ in range(3):
        print(trainer.epoch(synthetic(100)))
