import multiprocessing

import cupy as cp
import numpy as np
from cupyx.distributed import init_process_group


def power_iteration(rank, size, n, rounds):
    """Row-partitioned power iteration, one process per device."""
    with cp.cuda.Device(rank):
        comm = init_process_group(size, rank)
        stream = cp.cuda.Stream(non_blocking=True)
        rows = n // size
        rng = np.random.default_rng(rank)
        with stream:
            a = cp.asarray(rng.random((rows, n), dtype=np.float32))
            v = cp.ones(n, cp.float32)
            full = cp.empty((size, rows), cp.float32)
            norm = cp.empty(1, cp.float32)
            for _ in range(rounds):
                part = a @ v
                comm.all_gather(part, full, rows, stream=stream)
                local = cp.sum(part * part, keepdims=True)
                comm.all_reduce(local, norm, "sum", stream=stream)
                v = full.reshape(-1) / cp.sqrt(norm)
            estimate = float(cp.sqrt(norm)[0])
        comm.barrier()
        if rank == 0:
            print(round(estimate, 3))


def main():
    size = cp.cuda.runtime.getDeviceCount()
    ctx = multiprocessing.get_context("spawn")
    procs = [ctx.Process(target=power_iteration, args=(r, size, 1024 * size, 30))
             for r in range(size)]
    for p in procs:
        p.start()
    for p in procs:
        p.join()


if __name__ == "__main__":
    main()
