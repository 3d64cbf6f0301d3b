import numpy as np
import torch


class StagingRing:
    """Uploads host arrays of at most `capacity` rows through reusable pinned slots."""

    def __init__(self, capacity, width, depth=3, device="cuda"):
        self.device = torch.device(device)
        self.width = width
        self.capacity = capacity
        self.slots = [torch.empty(capacity, width, pin_memory=True) for _ in range(depth)]
        self.views = [slot.numpy() for slot in self.slots]
        self.events = [torch.cuda.Event() for _ in range(depth)]
        self.cursor = 0

    def upload(self, rows):
        count = rows.shape[0]
        if count > self.capacity or rows.shape[1] != self.width:
            raise ValueError(f"cannot stage {rows.shape}")
        index = self.cursor
        self.cursor = (index + 1) % len(self.slots)
        self.events[index].synchronize()
        np.copyto(self.views[index][:count], rows, casting="same_kind")
        out = torch.empty(count, self.width, device=self.device)
        out.copy_(self.slots[index][:count], non_blocking=True)
        self.events[index].record(torch.cuda.current_stream(self.device))
        return out

    def upload_many(self, parts):
        return torch.cat([self.upload(part) for part in parts])


def row_source(batches, width, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(batches):
        yield rng.standard_normal((int(rng.integers(1, 2048)), width)).astype(np.float32)


class CovarianceEstimator:
    def __init__(self, width, device="cuda"):
        self.total = torch.zeros(width, device=device)
        self.outer = torch.zeros(width, width, device=device)
        self.count = 0

    def update(self, rows):
        self.total.add_(rows.sum(0))
        self.outer.addmm_(rows.t(), rows)
        self.count += rows.shape[0]

    def result(self):
        mean = self.total / self.count
        return self.outer / self.count - torch.outer(mean, mean)


def main():
    width = 128
    ring = StagingRing(4096, width)
    estimator = CovarianceEstimator(width)
    for rows in row_source(40, width):
        estimator.update(ring.upload(rows))
    big = [rows for rows in row_source(7, width, seed=1)]
    estimator.update(ring.upload_many(big))
    try:
        ring.upload(np.zeros((1, width + 1), dtype=np.float32))
    except ValueError as exc:
        print("skipped:", exc)
    estimator.update(ring.upload(np.zeros((5, width), dtype=np.float32)))
    print(estimator.result().diagonal().mean().item())


if __name__ == "__main__":
    main()
