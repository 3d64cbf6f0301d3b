"""Row-split matrix product over several devices, two streams per device."""
from contextlib import contextmanager

import torch


class TempPool:
    """Stack-like arena for intermediate results of one device."""

    def __init__(self, device, nbytes):
        self.arena = torch.empty(nbytes, dtype=torch.uint8, device=device)
        self.offset = 0

    @contextmanager
    def take(self, shape, dtype):
        numel = 1
        for s in shape:
            numel *= s
        size = numel * torch.empty((), dtype=dtype).element_size()
        size = (size + 255) // 256 * 256
        start = self.offset
        if start + size > self.arena.numel():
            raise MemoryError("arena exhausted")
        self.offset = start + size
        try:
            flat = self.arena[start : start + size].view(dtype)[:numel]
            yield flat.view(shape)
        finally:
            self.offset = start


class DeviceSlice:
    def __init__(self, device, weight_rows, num_streams=2):
        self.device = device
        self.weight = weight_rows.to(device)
        self.pool = TempPool(device, 1 << 28)
        self.streams = [torch.cuda.Stream(device) for _ in range(num_streams)]

    def run(self, x, out):
        """out[:] = scaled x @ weight.T, computed in column chunks."""
        base = torch.cuda.current_stream(self.device)
        chunk = (out.shape[1] + len(self.streams) - 1) // len(self.streams)
        for i, stream in enumerate(self.streams):
            lo, hi = i * chunk, min((i + 1) * chunk, out.shape[1])
            stream.wait_stream(base)
            with torch.cuda.stream(stream), self.pool.take((x.shape[0], hi - lo), x.dtype) as tmp:
                torch.mm(x, self.weight[lo:hi].t(), out=tmp)
                out[:, lo:hi].copy_(tmp)
                out[:, lo:hi].mul_(0.5)
        for stream in self.streams:
            base.wait_stream(stream)


class RowSplitLinear:
    def __init__(self, weight, devices):
        self.devices = [torch.device(d) for d in devices]
        self.slices = [DeviceSlice(d, w) for d, w in zip(self.devices, weight.chunk(len(devices)))]
        self.rows = [s.weight.shape[0] for s in self.slices]

    @torch.no_grad()
    def __call__(self, x):
        parts = []
        for s, rows in zip(self.slices, self.rows):
            with torch.cuda.device(s.device):
                xd = x.to(s.device, non_blocking=True)
                out = torch.empty(x.shape[0], rows, dtype=x.dtype, device=s.device)
                s.run(xd, out)
                parts.append(out)
        return torch.cat([p.to(x.device, non_blocking=True) for p in parts], dim=1)


def main():
    devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    layer = RowSplitLinear(torch.randn(16384, 4096) / 64, devices)
    x = torch.randn(512, 4096, device=devices[0])
    for _ in range(8):
        y = layer(x)
    print(y.float().abs().mean().item())


if __name__ == "__main__":
    main()
