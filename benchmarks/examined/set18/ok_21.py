import typing

import cupy as cp
import cupyx
import numpy as np
import numpy.typing as npt


def _default_streams():
    return [cp.cuda.Stream(), cp.cuda.Stream()]


def stream_and_reduce(
    f: typing.Callable[..., typing.Tuple[cp.ndarray, ...]],
    args: typing.List[npt.NDArray],
    y_shapes: typing.List[typing.Tuple[int, ...]],
    y_dtypes: typing.List[npt.DTypeLike],
    streams: typing.Optional[typing.List[cp.cuda.Stream]] = None,
    chunk_size: int = 64,
):
    """Sum f(chunk) over chunks of pinned host arrays.

    Parameters
    ----------
    f:
        A function that takes one device chunk per array in args
    args:
        Pinned arrays with the same length along axis 0
    y_shapes, y_dtypes:
        Description of the outputs of f
    """
    streams = streams or _default_streams()
    N = len(args[0])
    chunk_size = min(chunk_size, N)
    num_buffers = 2

    args_gpu = [
        cp.empty((num_buffers * chunk_size, *x.shape[1:]), dtype=x.dtype)
        for x in args
    ]
    y_sums = [
        cp.zeros((num_buffers, *shape), dtype=d)
        for d, shape in zip(y_dtypes, y_shapes)
    ]

    for s, lo in enumerate(range(0, N, chunk_size)):
        buffer_index = s % num_buffers
        hi = min(lo + chunk_size, N)
        buflo = buffer_index * chunk_size
        bufhi = buflo + (hi - lo)

        with streams[0]:
            for x_gpu, x in zip(args_gpu, args):
                x_gpu[buflo:bufhi].set(x[lo:hi])

        streams[0].synchronize()
        streams[1].synchronize()

        with streams[1]:
            results = f(*(x_gpu[buflo:bufhi] for x_gpu in args_gpu))
            for y_sum, y in zip(y_sums, results):
                y_sum[buffer_index] += y

    return [y_sum.sum(axis=0) for y_sum in y_sums]


def pinned_copy(x: npt.NDArray) -> npt.NDArray:
    out = cupyx.empty_pinned(x.shape, dtype=x.dtype)
    out[...] = x
    return out


def intensity_statistics(data, background):
    diff = cp.maximum(data - background, 0)
    return diff.sum(axis=0), (diff * diff).sum(axis=0)


def main():
    rng = np.random.default_rng(0)
    frames = pinned_copy(rng.random((1000, 128, 128), dtype="float32"))
    dark = pinned_copy(0.1 * rng.random((1000, 128, 128), dtype="float32"))

    total, squares = stream_and_reduce(
        intensity_statistics,
        [frames, dark],
        y_shapes=[(128, 128), (128, 128)],
        y_dtypes=["float32", "float32"],
    )
    mean = cp.asnumpy(total) / len(frames)
    var = cp.asnumpy(squares) / len(frames) - mean**2
    print(mean.mean(), var.mean())


if __name__ == "__main__":
    main()
