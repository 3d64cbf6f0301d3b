"""Prefetching iterator for pairs of images and labels."""
from dataclasses import dataclass

import torch
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Batch:
    image: torch.Tensor
    label: torch.Tensor

    def upload(self):
        return Batch(self.image.cuda(non_blocking=True), self.label.cuda(non_blocking=True))

    def hand_over(self, stream):
        for tensor in (self.image, self.label):
            tensor.record_stream(stream)
        return self


class Prefetcher:
    def __init__(self, loader):
        self.source = iter(loader)
        self.stream = torch.cuda.Stream()
        self._advance()

    def _advance(self):
        try:
            image, label = next(self.source)
        except StopIteration:
            self.ahead = None
            return
        with torch.cuda.stream(self.stream):
            self.ahead = Batch(image, label).upload()
            self.ahead.image = self.ahead.image.float().sub_(0.45).div_(0.22)

    def __iter__(self):
        while self.ahead is not None:
            current = torch.cuda.current_stream()
            current.wait_stream(self.stream)
            batch = self.ahead.hand_over(current)
            self._advance()
            yield batch


def main():
    data = TensorDataset(torch.rand(2048, 3, 64, 64), torch.randint(0, 10, (2048,)))
    loader = DataLoader(data, batch_size=64, pin_memory=True, num_workers=2)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64 * 64, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in range(2):
        for batch in Prefetcher(loader):
            loss = torch.nn.functional.cross_entropy(model(batch.image), batch.label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
