import cupy as cp
import numpy as np

TILE = 512


def tile_stats(image, streams):
    """Per-tile moments on worker streams, merged on the null stream."""
    height, width = image.shape
    sums, squares = [], []
    index = 0
    for top in range(0, height, TILE):
        for left in range(0, width, TILE):
            tile = image[top:top + TILE, left:left + TILE]
            with streams[index % len(streams)]:
                sums.append(tile.sum(dtype=cp.float64))
                squares.append(cp.square(tile).sum(dtype=cp.float64))
            index += 1
    with cp.cuda.Stream.null:
        total = cp.stack(sums).sum()
        total_sq = cp.stack(squares).sum()
        mean = total / image.size
        std = cp.sqrt(total_sq / image.size - mean * mean)
        return mean, std


def normalise_stack(stack):
    streams = [cp.cuda.Stream() for _ in range(4)]
    out = np.empty_like(stack)
    for i, plane in enumerate(stack):
        image = cp.asarray(plane)
        mean, std = tile_stats(image, streams)
        image -= mean.astype(cp.float32)
        image /= cp.maximum(std, 1e-6).astype(cp.float32)
        image.get(out=out[i])
    return out


if __name__ == "__main__":
    data = np.random.rand(6, 2048, 2048).astype(np.float32)
    print(normalise_stack(data).std())
