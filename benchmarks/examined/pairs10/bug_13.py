"""Augmentation worker: PyTorch on a side stream, CuPy for the warping."""
import cupy as cp
import torch
from cupyx.scipy.ndimage import map_coordinates


class ElasticWarp:
    """Elastic deformation of image batches."""

    def __init__(self, size, strength=4.0, seed=0):
        rng = cp.random.RandomState(seed)
        grid = cp.stack(cp.meshgrid(cp.arange(size), cp.arange(size), indexing="ij"))
        self.coords = (grid + strength * rng.standard_normal(grid.shape)).astype(cp.float32)
        cp.cuda.Device().synchronize()

    def __call__(self, images):
        array = cp.asarray(images)
        warped = cp.empty_like(array)
        for i in range(array.shape[0]):
            map_coordinates(array[i], self.coords, output=warped[i], order=1, mode="nearest")
        return torch.as_tensor(warped, device="cuda")


class AugmentationWorker:
    def __init__(self, size=512):
        self.size = size
        self.stream = torch.cuda.Stream()
        self.warp = ElasticWarp(size)

    def make_batch(self, count=16):
        with torch.cuda.stream(self.stream):
            images = torch.rand(count, self.size, self.size, device="cuda")
            images = torch.nn.functional.avg_pool2d(images[:, None], 3, 1, 1)[:, 0]
            warped = self.warp(images.contiguous())
            batch = warped.sub(0.5).div(0.25)
        self.stream.synchronize()
        return batch


def main():
    worker = AugmentationWorker()
    means = []
    for _ in range(50):
        means.append(worker.make_batch().mean().item())
    print(sum(means) / len(means))


if __name__ == "__main__":
    main()
