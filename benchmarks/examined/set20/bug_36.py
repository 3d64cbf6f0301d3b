"""Online tuner for a Triton embedding-bag kernel."""
import torch
import triton
import triton.language as tl


@triton.jit
def bag_kernel(table, index, out, bag_size, dim, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = col < dim
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for k in range(bag_size):
        idx = tl.load(index + row * bag_size + k)
        acc += tl.load(table + idx * dim + col, mask=mask, other=0.0)
    tl.store(out + row * dim + col, acc, mask=mask)


def bench_replay(fn, rep=10):
    """Time fn by replaying a captured graph of it."""
    with torch.cuda.stream(torch.cuda.Stream()):
        fn()
        torch.cuda.current_stream().synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(rep):
                fn()
        torch.cuda.synchronize()
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
    return start.elapsed_time(end) / rep


class LibTuner:
    def __init__(self, kernel, configs):
        self.kernel = kernel
        self.configs = configs
        self.cache = {}

    def _launch(self, block, table, index, out):
        nbags, bag_size = index.shape
        dim = table.shape[1]
        grid = (nbags, triton.cdiv(dim, block))
        self.kernel[grid](table, index, out, bag_size, dim, BLOCK=block)

    def run(self, table, index, out):
        key = (table.shape, index.shape, table.dtype)
        if key not in self.cache:
            timings = {}
            for block in self.configs:
                timings[block] = bench_replay(lambda: self._launch(block, table, index, out))
            self.cache[key] = min(timings, key=timings.get)
        self._launch(self.cache[key], table, index, out)
        return out


tuner = LibTuner(bag_kernel, configs=[64, 128, 256])


def forward(tokens, table, proj):
    """Hash tokens into buckets on the device, gather and project."""
    buckets = tokens
    for _ in range(50):
        buckets = (buckets * 1103515245 + 12345) % table.shape[0]
    scaled = table * 2.0
    out = torch.empty(tokens.shape[0], table.shape[1], device=tokens.device)
    bags = tuner.run(scaled, buckets, out)
    return bags @ proj


def main():
    torch.manual_seed(0)
    table = torch.randn(200_000, 256, device="cuda")
    proj = torch.randn(256, 64, device="cuda")
    total = 0.0
    for nbags in (1024, 2048, 4096):
        tokens = torch.randint(0, 1 << 20, (nbags, 32), device="cuda")
        total += forward(tokens, table, proj).sum().item()
    return total


if __name__ == "__main__":
    print(main())
