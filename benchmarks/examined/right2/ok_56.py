"""Generator pipeline over two CuPy streams with RMM memory."""
import cupy as cp
import numpy as np
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator

unpack = cp.ElementwiseKernel(
    "raw uint8 packed, float32 step",
    "float32 out",
    "out = step * (float)((packed[i / 2] >> (4 * (i & 1))) & 0xF)",
    "unpack_nibbles",
)


def uploaded(blocks, stream):
    """Yield (device block, event) pairs."""
    for block in blocks:
        with stream:
            dev = cp.asarray(block)
        yield dev, stream.record()


def unpacked(pairs, upload, decode, step):
    held = None
    try:
        for packed, ready in pairs:
            decode.wait_event(ready)
            with decode:
                out = cp.empty(packed.size * 2, dtype=cp.float32)
                unpack(packed, np.float32(step), out)
            if held is not None:
                old, used = held
                upload.wait_event(used)
                del old
            held = (packed, decode.record())
            del packed
            yield out
    finally:
        decode.synchronize()
        upload.synchronize()
        held = None


def to_host(arrays, stream):
    for array in arrays:
        host = array.get(stream=stream)
        stream.synchronize()
        yield host


def main(blocks=16, nbytes=1 << 20):
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    cp.cuda.set_allocator(rmm_cupy_allocator)
    upload = cp.cuda.Stream(non_blocking=True)
    decode = cp.cuda.Stream(non_blocking=True)
    rng = np.random.default_rng(5)
    source = (rng.integers(0, 256, nbytes, dtype=np.uint8) for _ in range(blocks))
    stages = unpacked(uploaded(source, upload), upload, decode, 0.125)
    return sum(float(host.sum()) for host in to_host(stages, decode))


if __name__ == "__main__":
    print(main())
