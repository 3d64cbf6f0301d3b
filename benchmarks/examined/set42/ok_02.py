"""Store and retrieve on separate streams around one device bounce buffer."""
import threading

import torch


class BounceBuffer:
    """Device scratch used by both directions; who uses it last leaves an event."""

    def __init__(self, blocks, width, device):
        self.data = torch.empty(blocks, width, dtype=torch.float16, device=device)
        self.lock = threading.Lock()
        self._vacated = torch.cuda.Event()
        self._vacated.record(torch.cuda.current_stream(device))

    def enter(self, stream):
        stream.wait_event(self._vacated)
        return self.data

    def leave(self, stream):
        self._vacated.record(stream)


class CacheContext:
    def __init__(self, pages, width, blocks, device):
        self.device = torch.device(device)
        self.kv = torch.zeros(pages, width, dtype=torch.float16, device=device)
        self.bounce = BounceBuffer(blocks, width, device)
        self.store_stream = torch.cuda.Stream(device)
        self.retrieve_stream = torch.cuda.Stream(device, priority=-1)
        self.host = {}


class TransferModule:
    def __init__(self, ctx):
        self.ctx = ctx

    def store(self, key, pages):
        ctx, s = self.ctx, self.ctx.store_stream
        n = pages.numel()
        out = torch.empty(n, ctx.kv.shape[1], dtype=torch.float16, pin_memory=True)
        s.wait_stream(torch.cuda.current_stream(ctx.device))
        with ctx.bounce.lock, torch.cuda.stream(s):
            scratch = ctx.bounce.enter(s)
            torch.index_select(ctx.kv, 0, pages, out=scratch[:n])
            out.copy_(scratch[:n], non_blocking=True)
            ctx.bounce.leave(s)
            finished = s.record_event()
        pages.record_stream(s)
        ctx.host[key] = (out, finished)
        torch.cuda.current_stream(ctx.device).wait_event(finished)

    def retrieve(self, key, pages):
        ctx, s = self.ctx, self.ctx.retrieve_stream
        src, written = ctx.host[key]
        n = pages.numel()
        s.wait_stream(torch.cuda.current_stream(ctx.device))
        s.wait_event(written)
        with ctx.bounce.lock, torch.cuda.stream(s):
            scratch = ctx.bounce.enter(s)
            scratch[:n].copy_(src, non_blocking=True)
            ctx.kv.index_copy_(0, pages, scratch[:n])
            ctx.bounce.leave(s)
        pages.record_stream(s)
        return s.record_event()


def main():
    device = "cuda:0"
    ctx = CacheContext(1024, 128, 64, device)
    mod = TransferModule(ctx)
    ctx.kv.normal_()
    current = torch.cuda.current_stream()
    for step in range(8):
        src = torch.randint(0, 512, (32,), device=device)
        dst = torch.arange(512, 544, device=device)
        mod.store(f"req-{step}", src)
        loaded = mod.retrieve(f"req-{step}", dst)
        current.wait_event(loaded)
        ctx.kv[512:544].mul_(1.01)
    print(ctx.kv.float().norm().item())


if __name__ == "__main__":
    main()
