"""Out-of-core C = A @ B: row panels of A go up and panels of C come down through two slots."""
import numpy as np
import torch


class PanelSlot:
    def __init__(self, rows, k, n):
        self.host_a = torch.empty(rows, k, pin_memory=True)
        self.host_c = torch.empty(rows, n, pin_memory=True)
        self.dev_a = torch.empty(rows, k, device="cuda")
        self.dev_c = torch.empty(rows, n, device="cuda")
        self.stream = torch.cuda.Stream()
        self.done = torch.cuda.Event()
        self.rows = None


class OutOfCoreGemm:
    def __init__(self, b, rows, slots=2):
        self.b = torch.from_numpy(b).cuda()
        self.rows = rows
        k, n = b.shape
        self.slots = [PanelSlot(rows, k, n) for _ in range(slots)]
        for slot in self.slots:
            slot.stream.wait_stream(torch.cuda.current_stream())

    def _drain(self, slot, c):
        if slot.rows is None:
            return
        slot.done.synchronize()
        lo, hi = slot.rows
        c[lo:hi] = slot.host_c[: hi - lo].numpy()
        slot.rows = None

    def multiply(self, a):
        c = np.empty((a.shape[0], self.b.shape[1]), np.float32)
        for i, lo in enumerate(range(0, a.shape[0], self.rows)):
            hi = min(lo + self.rows, a.shape[0])
            slot = self.slots[i % len(self.slots)]
            self._drain(slot, c)
            slot.host_a[: hi - lo].copy_(torch.from_numpy(a[lo:hi]))
            with torch.cuda.stream(slot.stream):
                slot.dev_a.copy_(slot.host_a, non_blocking=True)
                torch.mm(slot.dev_a, self.b, out=slot.dev_c)
                slot.host_c.copy_(slot.dev_c, non_blocking=True)
                slot.done.record()
            slot.rows = (lo, hi)
        for slot in self.slots:
            self._drain(slot, c)
        return c


def main():
    rng = np.random.default_rng(1)
    b = rng.standard_normal((2048, 1024), dtype=np.float32)
    a = rng.standard_normal((40_000, 2048), dtype=np.float32)
    gemm = OutOfCoreGemm(b, rows=4096)
    c = gemm.multiply(a)
    print(np.abs(c[:10] - a[:10] @ b).max())


if __name__ == "__main__":
    main()
