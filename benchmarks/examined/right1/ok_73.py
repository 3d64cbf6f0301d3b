"""Row statistics by a Triton kernel on a side stream, logged in blocks."""
import functools

import torch
import triton
import triton.language as tl


@triton.jit
def row_stats_kernel(x_ptr, out_ptr, cols, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    mask = offs < cols
    x = tl.load(x_ptr + row * stride + offs, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / cols
    diff = tl.where(mask, x - mean, 0.0)
    tl.store(out_ptr + 2 * row, mean)
    tl.store(out_ptr + 2 * row + 1, tl.sum(diff * diff, axis=0) / cols)


def on_side_stream(fn):
    streams = {}

    @functools.wraps(fn)
    def wrapper(x, *args):
        if x.device not in streams:
            streams[x.device] = torch.cuda.Stream(x.device)
        stream = streams[x.device]
        stream.wait_stream(torch.cuda.current_stream(x.device))
        with torch.cuda.stream(stream):
            result = fn(x, *args)
        x.record_stream(stream)
        return result

    return wrapper


class StatsLog:
    def __init__(self, rows, every=8):
        self.host = torch.empty(every, rows, 2, pin_memory=True)
        self.used = 0
        self.history = []

    def flush(self):
        torch.cuda.synchronize()
        self.history.extend(self.host[: self.used].mean(dim=1).tolist())
        self.used = 0

    def reserve(self):
        if self.used == self.host.shape[0]:
            self.flush()
        self.used += 1
        return self.host[self.used - 1]


@on_side_stream
def log_rows(x, log):
    rows, cols = x.shape
    out = torch.empty(rows, 2, device=x.device, dtype=torch.float32)
    row_stats_kernel[(rows,)](x, out, cols, x.stride(0), BLOCK=triton.next_power_of_2(cols))
    log.reserve().copy_(out, non_blocking=True)


def main(steps=50, rows=512, cols=1000):
    log = StatsLog(rows)
    w = torch.randn(cols, cols, device="cuda") / cols ** 0.5
    x = torch.randn(rows, cols, device="cuda")
    for _ in range(steps):
        x = torch.tanh(x @ w)
        log_rows(x, log)
    log.flush()
    return log.history


if __name__ == "__main__":
    print(main()[-1])
