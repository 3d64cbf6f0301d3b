import cupy as cp


def transfer(shape, sigma, gain):
    """Frequency response of an unsharp mask."""
    fy = cp.fft.fftfreq(shape[0], dtype=cp.float32)[:, None]
    fx = cp.fft.rfftfreq(shape[1], dtype=cp.float32)[None, :]
    low = cp.exp(-2.0 * (cp.pi * sigma) ** 2 * (fx ** 2 + fy ** 2))
    return (1.0 + gain * (1.0 - low)).astype(cp.float32)


def sharpen(tile, response):
    spectrum = cp.fft.rfft2(tile)
    spectrum *= response
    out = cp.fft.irfft2(spectrum, s=tile.shape)
    return cp.clip(out, 0.0, 1.0).astype(cp.float32)


def presets(name):
    """Named pairs of blur width and gain."""
    table = {
        "soft": (1.0, 0.3),
        "print": (1.5, 0.6),
        "screen": (2.0, 0.8),
        "harsh": (3.0, 1.4),
    }
    try:
        return table[name]
    except KeyError:
        raise ValueError(f"unknown preset {name!r}; one of {sorted(table)}") from None


def bytes_needed(tile_shape):
    """Device memory of one tile in work: the tile, its spectrum, the result."""
    h, w = tile_shape
    return 4 * h * w * 2 + 8 * h * (w // 2 + 1)
