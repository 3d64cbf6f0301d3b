"""Micro-batch uploader: slices of a pinned batch copied on a side stream."""
import torch
from torch import nn


class MicroBatch:
    def __init__(self, images, labels, uploaded):
        self.images = images
        self.labels = labels
        self.uploaded = uploaded


class SliceUploader:
    """Cuts a collated batch into micro-batches and uploads each slice."""

    def __init__(self, micro_batches):
        self.micro_batches = micro_batches
        self.stream = torch.cuda.Stream()

    def upload(self, images, labels):
        images = images.pin_memory()
        labels = labels.pin_memory()
        parts = []
        with torch.cuda.stream(self.stream):
            for image, label in zip(images.chunk(self.micro_batches),
                                    labels.chunk(self.micro_batches)):
                part = MicroBatch(image.cuda(non_blocking=True),
                                  label.cuda(non_blocking=True), torch.cuda.Event())
                part.uploaded.record()
                parts.append(part)
        return parts


class Trainer:
    def __init__(self, model, uploader, lr=0.05):
        self.model = model
        self.uploader = uploader
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)

    def _take(self, part):
        current = torch.cuda.current_stream()
        current.wait_event(part.uploaded)
        part.images.record_stream(current)
        part.labels.record_stream(current)
        return part.images, part.labels

    def step(self, parts):
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device="cuda")
        while parts:
            images, labels = self._take(parts.pop(0))
            loss = nn.functional.cross_entropy(self.model(images), labels)
            (loss / self.uploader.micro_batches).backward()
            total += loss.detach()
        self.optimizer.step()
        return total

    def fit(self, source):
        history = []
        pending = self.uploader.upload(*next(source))
        for batch in source:
            upcoming = self.uploader.upload(*batch)
            history.append(self.step(pending))
            pending = upcoming
        history.append(self.step(pending))
        return torch.stack(history).tolist()


def synthetic(count, batch):
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        yield (torch.randn(batch, 3, 64, 64, generator=generator),
               torch.randint(0, 10, (batch,), generator=generator))


def main():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).cuda()
    print(Trainer(model, SliceUploader(8)).fit(synthetic(20, 256))[-3:])


if __name__ == "__main__":
    main()
