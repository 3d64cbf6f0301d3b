import cupy as cp
import cupyx
import numpy as np


def prefetched(chunks, stream, lookahead=2):
    """Yields device chunks a few uploads ahead of the consumer."""
    staging, queue = [], []
    try:
        for chunk in chunks:
            if len(staging) <= lookahead:
                host, uploaded = cupyx.empty_pinned(chunk.shape, chunk.dtype), None
            else:
                host, uploaded = staging.pop(0)
                uploaded.synchronize()
            host[...] = chunk
            with stream:
                dev = cp.empty(chunk.shape, chunk.dtype)
                dev.set(host, stream=stream)
            event = stream.record()
            staging.append((host, event))
            queue.append((dev, event))
            if len(queue) > lookahead:
                yield queue.pop(0)
        while queue:
            yield queue.pop(0)
    finally:
        stream.synchronize()


def column_means(chunks, columns):
    upload = cp.cuda.Stream(non_blocking=True)
    compute = cp.cuda.Stream(non_blocking=True)
    with compute:
        total = cp.zeros(columns, cp.float64)
    rows = 0
    for dev, uploaded in prefetched(chunks, upload):
        compute.wait_event(uploaded)
        with compute:
            total += dev.sum(axis=0, dtype=cp.float64)
        upload.wait_event(compute.record())
        rows += dev.shape[0]
        del dev
    with compute:
        return (total / rows).get()


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    data = (rng.random((4096, 32), dtype=np.float32) for _ in range(15))
    print(column_means(data, 32)[:4])
