import torch
import triton
import triton.language as tl


@triton.jit
def _quant_rows(x_ptr, q_ptr, s_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    scale = tl.max(tl.abs(x), axis=0) / 127.0 + 1e-8
    q = x / scale
    tl.store(q_ptr + row * n_cols + cols, q.to(tl.int8), mask=mask)
    tl.store(s_ptr + row, scale)


def quantize_rows(x: torch.Tensor):
    rows, cols = x.shape
    q = torch.empty(rows, cols, dtype=torch.int8, device=x.device)
    s = torch.empty(rows, dtype=torch.float32, device=x.device)
    _quant_rows[(rows,)](x, q, s, cols, BLOCK=triton.next_power_of_2(cols))
    return q, s


class KVCompressor:
    """Quantizes finished KV pages off the critical path and spills them to the host."""

    def __init__(self, pages: int, rows: int, cols: int):
        self.stream = torch.cuda.Stream(priority=0)
        self.host_q = torch.empty(pages, rows, cols, dtype=torch.int8, pin_memory=True)
        self.host_s = torch.empty(pages, rows, pin_memory=True)
        self.done = [None] * pages

    def spill(self, page: int, kv: torch.Tensor) -> None:
        kv.record_stream(self.stream)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            q, s = quantize_rows(kv)
            self.host_q[page].copy_(q, non_blocking=True)
            self.host_s[page].copy_(s, non_blocking=True)
            self.done[page] = self.stream.record_event()

    def restore(self, page: int) -> torch.Tensor:
        torch.cuda.current_stream().wait_event(self.done[page])
        q = self.host_q[page].cuda(non_blocking=True)
        s = self.host_s[page].cuda(non_blocking=True)
        return q.float() * s[:, None]


def main():
    comp = KVCompressor(8, 512, 1024)
    sums = []
    for page in range(8):
        kv = torch.randn(512, 1024, device="cuda")
        sums.append(kv.sum())
        comp.spill(page, kv)
        del kv
    err = [(comp.restore(p).sum() - sums[p]).abs() for p in range(8)]
    print(torch.stack(err).max().item())


if __name__ == "__main__":
    main()
