import os
from typing import Callable, Iterable, Mapping, Optional

import numpy as np

_new_cuda_buffer: Optional[Callable[[int], object]] = None


def nbytes(frame) -> int:
    return frame.nbytes if hasattr(frame, "nbytes") else len(frame)


def get_new_cuda_buffer() -> Callable[[int], object]:
    """Return a function to create an empty CUDA buffer"""
    global _new_cuda_buffer
    if _new_cuda_buffer is not None:
        return _new_cuda_buffer
    try:
        import rmm

        _new_cuda_buffer = lambda n: rmm.DeviceBuffer(size=n)  # noqa: E731
        return _new_cuda_buffer
    except ImportError:
        pass

    import cupy

    _new_cuda_buffer = lambda n: cupy.empty((n,), dtype="u1")  # noqa: E731
    return _new_cuda_buffer


class SpillToDiskFile:
    """File path the gets removed on destruction"""

    def __init__(self, path: str) -> None:
        self.path = path

    def __del__(self):
        os.remove(self.path)

    def __str__(self) -> str:
        return self.path


def disk_write(path: str, frames: Iterable, gds=False) -> dict:
    frames = tuple(frames)
    cuda_frames = tuple(hasattr(f, "__cuda_array_interface__") for f in frames)
    frame_lengths = tuple(map(nbytes, frames))
    if gds and any(cuda_frames):
        import kvikio

        with kvikio.CuFile(path, "w") as f:
            file_offset = 0
            futs = []
            for frame, length in zip(frames, frame_lengths):
                futs.append(f.pwrite(buf=frame, size=length, file_offset=file_offset))
                file_offset += length
            for each_fut in futs:
                each_fut.get()
    else:
        with open(path, "wb") as f:
            for frame in frames:
                f.write(frame)
    return {
        "method": "stdio",
        "path": SpillToDiskFile(path),
        "frame-lengths": frame_lengths,
        "cuda-frames": cuda_frames,
    }


def disk_read(header: Mapping, gds=False) -> list:
    ret: list = []
    if gds:
        import kvikio

        for length, is_cuda in zip(header["frame-lengths"], header["cuda-frames"]):
            ret.append(get_new_cuda_buffer()(length) if is_cuda else np.empty((length,), dtype="u1"))

        with kvikio.CuFile(str(header["path"]), "r") as f:
            file_offset = 0
            futs = []
            for buf, length in zip(ret, header["frame-lengths"]):
                futs.append(f.pread(buf=buf, size=length, file_offset=file_offset))
                file_offset += length
            for each_fut in futs:
                each_fut.get()
    else:
        with open(str(header["path"]), "rb") as f:
            for length in header["frame-lengths"]:
                ret.append(f.read(length))
    return ret


def roundtrip(path: str, arrays):
    header = disk_write(path, arrays, gds=True)
    return [b for b in disk_read(header, gds=True)]
