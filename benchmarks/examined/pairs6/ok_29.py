"""Device side augmentation runs in a worker thread, one batch ahead of the model."""
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn
import torch.nn.functional as F


class AugmentWorker:
    def __init__(self, dataset, batch):
        self.dataset, self.batch = dataset, batch
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.future = None

    def _job(self, index):
        with torch.cuda.stream(self.stream):
            x = self.dataset[index:index + self.batch]
            theta = torch.zeros(len(x), 2, 3, device=x.device)
            theta[:, 0, 0] = theta[:, 1, 1] = 1.0
            theta[:, :, 2] = (torch.rand(len(x), 2, device=x.device) - 0.5) * 0.2
            grid = F.affine_grid(theta, list(x.shape), align_corners=False)
            out = F.grid_sample(x, grid, align_corners=False)
            finished = torch.cuda.Event()
            finished.record(self.stream)
        return out, finished

    def submit(self, index):
        self.future = self.pool.submit(self._job, index)

    def take(self):
        out, finished = self.future.result()
        consumer = torch.cuda.current_stream()
        consumer.wait_event(finished)
        out.record_stream(consumer)
        return out


def main(epochs=5, batch=256):
    images = torch.rand(16384, 3, 32, 32, device="cuda")
    labels = torch.randint(0, 10, (16384,), device="cuda")
    model = nn.Sequential(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.Conv2d(64, 128, 3, 2), nn.ReLU(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    worker = AugmentWorker(images, batch)
    for _ in range(epochs):
        worker.submit(0)
        for start in range(0, len(images), batch):
            x = worker.take()
            if start + batch < len(images):
                worker.submit(start + batch)
            loss = F.cross_entropy(model(x), labels[start:start + batch])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        print(loss.item())
    worker.pool.shutdown()


if __name__ == "__main__":
    main()
