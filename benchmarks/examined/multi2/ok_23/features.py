import cupy as cp

from lanes import on_lane


@on_lane
def gradient_histogram(picture, bins):
    pixels = cp.asarray(picture).astype(cp.float32)
    gy = pixels[2:, 1:-1] - pixels[:-2, 1:-1]
    gx = pixels[1:-1, 2:] - pixels[1:-1, :-2]
    size = cp.sqrt(gx * gx + gy * gy)
    angle = cp.arctan2(gy, gx) + cp.pi
    index = cp.minimum((angle * (bins / (2 * cp.pi))).astype(cp.int32), bins - 1)
    hist = cp.zeros(bins, cp.float32)
    cp.add.at(hist, index.ravel(), size.ravel())
    return hist / cp.maximum(hist.sum(), 1e-6)


@on_lane
def colour_moments(picture):
    pixels = cp.asarray(picture).astype(cp.float32)
    mean = pixels.mean()
    centred = pixels - mean
    second = (centred ** 2).mean()
    third = (centred ** 3).mean()
    return cp.stack([mean, second, third])


def names(bins):
    """Column names of a feature row."""
    return [f"angle_{k}" for k in range(bins)] + ["mean", "second", "third"]


def cost(side, bins):
    """Bytes of device memory that one picture needs while it is described."""
    inner = (side - 2) ** 2
    return side * side * 5 + inner * 4 * 5 + bins * 4
