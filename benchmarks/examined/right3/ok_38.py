"""Warp neighbour counts inside a PyTorch operator on the caller's stream."""
import contextlib

import torch
import warp as wp

wp.init()


@wp.kernel
def count_within(points: wp.array(dtype=wp.vec3), radius: float, counts: wp.array(dtype=wp.int32)):
    i, j = wp.tid()
    if i != j:
        d = wp.length(points[i] - points[j])
        if d < radius:
            wp.atomic_add(counts, i, 1)


@contextlib.contextmanager
def caller_stream(device: torch.device):
    """Make Warp use the PyTorch stream that is current for `device`."""
    current = torch.cuda.current_stream(device)
    with wp.ScopedStream(wp.stream_from_torch(current)):
        yield


def neighbour_counts(points: torch.Tensor, radius: float) -> torch.Tensor:
    n = points.shape[0]
    counts = torch.zeros(n, dtype=torch.int32, device=points.device)
    with caller_stream(points.device):
        wp.launch(
            count_within,
            dim=(n, n),
            inputs=[wp.from_torch(points, dtype=wp.vec3), radius, wp.from_torch(counts)],
        )
    return counts


class DensityFilter:
    def __init__(self, radius: float, keep: float, device: torch.device):
        self.radius, self.keep = radius, keep
        self.stream = torch.cuda.Stream(device)

    def __call__(self, points: torch.Tensor) -> torch.Tensor:
        parent = torch.cuda.current_stream(points.device)
        self.stream.wait_stream(parent)
        with torch.cuda.stream(self.stream):
            counts = neighbour_counts(points.contiguous(), self.radius)
            k = int(points.shape[0] * self.keep)
            index = counts.topk(k).indices
            dense = points[index]
        parent.wait_stream(self.stream)
        dense.record_stream(parent)
        return dense


def main():
    device = torch.device("cuda", 0)
    density = DensityFilter(0.3, 0.5, device)
    for _ in range(20):
        cloud = torch.randn(2048, 3, device=device)
        dense = density(density(cloud))
        centroid = dense.mean(dim=0)
    print(centroid.tolist())


if __name__ == "__main__":
    main()
