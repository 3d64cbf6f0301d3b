"""Block swap in and out of a paged cache through one staging area, two copy streams."""
import threading

import torch


class StagingArea:
    """One device buffer shared by the swap-out and swap-in directions."""

    def __init__(self, shape, dtype, device):
        self.buf = torch.empty(shape, dtype=dtype, device=device)
        self.last_use = None
        self.lock = threading.Lock()

    def borrow(self, stream):
        self.lock.acquire()
        if self.last_use is not None:
            stream.wait_event(self.last_use)
        return self.buf

    def give_back(self, stream):
        self.last_use = stream.record_event()
        self.lock.release()


class SwapEngine:
    def __init__(self, kv, block_size, max_blocks):
        self.kv = kv
        self.out_stream = torch.cuda.Stream()
        self.in_stream = torch.cuda.Stream(priority=-1)
        self.staging = StagingArea((max_blocks, block_size, kv.shape[-1]), kv.dtype, kv.device)
        self.host = {}
        self.host_ready = {}
        torch.cuda.synchronize()

    def swap_out(self, key, blocks):
        idx = torch.tensor(blocks).pin_memory()
        compute = torch.cuda.current_stream()
        self.out_stream.wait_stream(compute)
        dst = torch.empty((len(blocks), *self.staging.buf.shape[1:]), dtype=self.kv.dtype,
                          pin_memory=True)
        with torch.cuda.stream(self.out_stream):
            buf = self.staging.borrow(self.out_stream)[: len(blocks)]
            torch.index_select(self.kv, 0, idx.to(self.kv.device, non_blocking=True), out=buf)
            taken = self.out_stream.record_event()
            dst.copy_(buf, non_blocking=True)
            self.staging.give_back(self.out_stream)
        self.host[key] = dst
        self.host_ready[key] = self.staging.last_use
        compute.wait_event(taken)

    def swap_in(self, key, blocks):
        src = self.host[key]
        idx = torch.tensor(blocks).pin_memory()
        compute = torch.cuda.current_stream()
        self.in_stream.wait_stream(compute)
        with torch.cuda.stream(self.in_stream):
            self.in_stream.wait_event(self.host_ready[key])
            buf = self.staging.borrow(self.in_stream)[: len(blocks)]
            buf.copy_(src, non_blocking=True)
            self.kv.index_copy_(0, idx.to(self.kv.device, non_blocking=True), buf)
            self.staging.give_back(self.in_stream)
            landed = self.staging.last_use
        compute.wait_event(landed)

    def drop(self, key):
        self.host_ready.pop(key).synchronize()
        del self.host[key]


class Scheduler:
    def __init__(self, engine, total, per_request):
        self.engine = engine
        self.total = total
        self.per = per_request
        self.live = []

    def step(self, n):
        blocks = [(n * self.per + i) % self.total for i in range(self.per)]
        self.engine.swap_out(n, blocks)
        self.live.append((n, blocks))
        if len(self.live) > 2:
            key, where = self.live.pop(0)
            self.engine.swap_in(key, where)
            torch.cuda.current_stream().synchronize()
            self.engine.drop(key)


def main():
    kv = torch.randn(64, 16, 1024, device="cuda", dtype=torch.float16)
    sched = Scheduler(SwapEngine(kv, 16, 8), 64, 8)
    total = torch.zeros((), device="cuda")
    for n in range(24):
        sched.step(n)
        kv.mul_(0.999)
        total += kv.float().abs().mean()
    print(total.item())


if __name__ == "__main__":
    main()
