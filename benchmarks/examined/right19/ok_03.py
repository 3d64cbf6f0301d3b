import sys

import numpy as np
import torch

DEPTH = 4
ROWS = 4096
COLS = 512


def read_chunk(fh, index, out):
    rng = np.random.default_rng(index)
    if fh is None:
        out[:] = rng.random((ROWS, COLS), dtype=np.float32)
        return
    raw = fh.read(ROWS * COLS * 4)
    if len(raw) < ROWS * COLS * 4:
        fh.seek(0)
        raw = fh.read(ROWS * COLS * 4)
    out[:] = np.frombuffer(raw, dtype=np.float32).reshape(ROWS, COLS)


def covariance(path=None, passes=600):
    device = torch.device("cuda:0")
    fh = open(path, "rb") if path else None

    host = [torch.empty(ROWS, COLS, pin_memory=True) for _ in range(DEPTH)]
    views = [h.numpy() for h in host]
    dev = [torch.empty(ROWS, COLS, device=device) for _ in range(DEPTH)]
    uploaded = [torch.cuda.Event() for _ in range(DEPTH)]
    reduced = [torch.cuda.Event() for _ in range(DEPTH)]

    gram = torch.zeros(COLS, COLS, device=device)
    total = torch.zeros(COLS, device=device)

    upload = torch.cuda.Stream(device)
    reduce = torch.cuda.Stream(device)
    upload.wait_stream(torch.cuda.current_stream(device))
    reduce.wait_stream(torch.cuda.current_stream(device))

    for i in range(passes):
        k = i % DEPTH
        uploaded[k].synchronize()
        read_chunk(fh, i, views[k])

        upload.wait_event(reduced[k])
        with torch.cuda.stream(upload):
            dev[k].copy_(host[k], non_blocking=True)
            uploaded[k].record()

        reduce.wait_event(uploaded[k])
        with torch.cuda.stream(reduce):
            gram.addmm_(dev[k].t(), dev[k])
            total.add_(dev[k].sum(dim=0))
            reduced[k].record()

        if i % 100 == 99:
            reduced[k].synchronize()
            print(i + 1, float(total[0].cpu()) / ((i + 1) * ROWS))

    torch.cuda.current_stream(device).wait_stream(reduce)
    n = passes * ROWS
    mean = total / n
    cov = gram / n - torch.outer(mean, mean)
    if fh is not None:
        fh.close()
    return mean.cpu(), cov.cpu()


if __name__ == "__main__":
    mean, cov = covariance(sys.argv[1] if len(sys.argv) > 1 else None)
    print(mean.mean().item(), cov.diagonal().mean().item())
