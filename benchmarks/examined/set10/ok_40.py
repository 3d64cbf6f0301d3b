import cupy as cp
import numpy as np
from cupyx.scipy import ndimage


class BlockGrid:
    """Overlapping z-blocks of a volume."""

    def __init__(self, depth, block, halo):
        self.depth, self.block, self.halo = depth, block, halo

    def __iter__(self):
        for z in range(0, self.depth, self.block):
            stop = min(z + self.block, self.depth)
            lo, hi = max(z - self.halo, 0), min(stop + self.halo, self.depth)
            yield slice(lo, hi), slice(z - lo, stop - lo), slice(z, stop)


class MultiStreamFilter:
    def __init__(self, n_streams=4, sigma=2.0):
        self.streams = [cp.cuda.Stream() for _ in range(n_streams)]
        self.sigma = sigma
        self.halo = int(4 * sigma + 0.5)

    def _filter_block(self, block):
        smooth = ndimage.gaussian_filter(block, self.sigma)
        background = ndimage.uniform_filter(block, 2 * self.halo + 1)
        return smooth - background

    def __call__(self, volume, block=32):
        x = cp.asarray(volume, dtype=cp.float32)
        x -= x.mean()
        x /= x.std() + 1e-6
        out = cp.empty_like(x)
        grid = BlockGrid(x.shape[0], block, self.halo)
        for i, (src, inner, dst) in enumerate(grid):
            with self.streams[i % len(self.streams)]:
                out[dst] = self._filter_block(x[src])[inner]
        out -= out.min()
        out /= out.max()
        return out


def blob_profile(volumes, threshold=0.6, **kwargs):
    """Fraction of bright voxels per slice, averaged over the volumes."""
    filt = MultiStreamFilter(**kwargs)
    total = None
    for volume in volumes:
        bright = filt(volume) > threshold
        profile = bright.mean(axis=(1, 2))
        total = profile if total is None else total + profile
    return cp.asnumpy(total) / max(len(volumes), 1)


def main():
    rng = np.random.default_rng(0)
    volumes = [rng.random((128, 256, 256), dtype=np.float32) for _ in range(4)]
    profile = blob_profile(volumes)
    print(profile.argmax(), profile.max())


if __name__ == "__main__":
    main()
