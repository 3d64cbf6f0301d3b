"""Row-wise squared distances with a Triton kernel on a per-device stream."""
import torch
import triton
import triton.language as tl


@triton.jit
def _row_sq(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        v = tl.load(x_ptr + row * n_cols + offs, mask=offs < n_cols, other=0.0)
        acc += v * v
    tl.store(out_ptr + row, tl.sum(acc, axis=0))


class DeviceRuntime:
    """Search stream of one device."""

    def __init__(self, device):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)

    def enter(self):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))

    def leave(self):
        torch.cuda.current_stream(self.device).wait_stream(self.stream)


class KnnIndex:
    def __init__(self, runtime):
        self.rt = runtime
        self.base = None
        self.sq = None

    def train(self, base):
        self.base = base
        self.sq = torch.empty(base.shape[0], device=self.rt.device)
        self.rt.enter()
        with torch.cuda.device(self.rt.device), torch.cuda.stream(self.rt.stream):
            _row_sq[(base.shape[0],)](base, self.sq, base.shape[1], BLOCK=128)

    def search(self, x, k):
        self.rt.enter()
        with torch.cuda.device(self.rt.device), torch.cuda.stream(self.rt.stream):
            dist = self.sq[None, :] - 2 * x @ self.base.t()
            values, idx = dist.topk(k, dim=1, largest=False)
            x.record_stream(self.rt.stream)
        self.rt.leave()
        caller = torch.cuda.current_stream(self.rt.device)
        values.record_stream(caller)
        idx.record_stream(caller)
        return values, idx


def main():
    device = torch.device("cuda:1")
    index = KnnIndex(DeviceRuntime(device))
    base = torch.randn(100000, 96, device=device)
    index.train(base)
    hits = torch.zeros(100000, dtype=torch.int64, device=device)
    for _ in range(16):
        q = torch.randn(256, 96, device=device)
        _, idx = index.search(q, 10)
        hits.index_add_(0, idx.flatten(), torch.ones_like(idx.flatten()))
    print(hits.max().item())


if __name__ == "__main__":
    main()
