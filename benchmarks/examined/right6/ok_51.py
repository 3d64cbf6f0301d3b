import numpy as np
from mpi4py import MPI
from numba import cuda

CHUNK = 1 << 18


@cuda.jit
def encode(src, dst, lo, n):
    i = cuda.grid(1)
    if i < n:
        dst[lo + i] = src[lo + i] * 2.0 + 1.0


def sender(comm, values):
    """Encodes and sends chunk by chunk; a chunk leaves when its copy is in."""
    stream = cuda.stream()
    src = cuda.to_device(values)
    dst = cuda.device_array_like(src)
    host = cuda.pinned_array(values.size, np.float64)
    chunks = []
    for lo in range(0, values.size, CHUNK):
        hi = min(lo + CHUNK, values.size)
        encode[(CHUNK + 255) // 256, 256, stream](src, dst, lo, hi - lo)
        dst[lo:hi].copy_to_host(host[lo:hi], stream=stream)
        done = cuda.event(timing=False)
        done.record(stream)
        chunks.append((lo, hi, done))
    requests = []
    for tag, (lo, hi, done) in enumerate(chunks):
        done.synchronize()
        requests.append(comm.Isend(host[lo:hi], dest=1, tag=tag))
    MPI.Request.Waitall(requests)


def receiver(comm, n):
    stream = cuda.stream()
    host = cuda.pinned_array(n, np.float64)
    dev = cuda.device_array(n, np.float64)
    bounds = [(lo, min(lo + CHUNK, n)) for lo in range(0, n, CHUNK)]
    requests = [comm.Irecv(host[lo:hi], source=0, tag=t) for t, (lo, hi) in enumerate(bounds)]
    for _ in bounds:
        k = MPI.Request.Waitany(requests)
        lo, hi = bounds[k]
        dev[lo:hi].copy_to_device(host[lo:hi], stream=stream)
    out = np.empty(n)
    dev.copy_to_host(out, stream=stream)
    stream.synchronize()
    return out


def main():
    comm = MPI.COMM_WORLD
    n = CHUNK * 5 + 1000
    if comm.Get_rank() == 0:
        sender(comm, np.arange(n, dtype=np.float64))
    elif comm.Get_rank() == 1:
        print(np.array_equal(receiver(comm, n), np.arange(n) * 2.0 + 1.0))


if __name__ == "__main__":
    main()
