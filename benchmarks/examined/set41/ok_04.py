"""Write-through KV tier: pages mirrored to host, then handed to other requests."""
import torch


class WriteThroughCache:
    def __init__(self, pages, page_size, width):
        self.dev = torch.zeros(pages, page_size, width, device="cuda", dtype=torch.bfloat16)
        self.host = torch.zeros(
            pages, page_size, width, dtype=torch.bfloat16, pin_memory=True
        )
        self.free = list(range(pages))
        self.write_stream = torch.cuda.Stream()
        self.last_write = None
        self.acks = []

    def allocate(self, n):
        out = self.free[:n]
        del self.free[:n]
        return out

    def write_through(self, key, pages, forward_stream):
        self.write_stream.wait_stream(forward_stream)
        with torch.cuda.stream(self.write_stream):
            for p in pages:
                self.host[p].copy_(self.dev[p], non_blocking=True)
            finished = torch.cuda.Event()
            finished.record()
        self.last_write = finished
        self.acks.append((key, list(pages), finished))

    def order_after_writes(self, stream):
        if self.last_write is not None:
            stream.wait_event(self.last_write)

    def poll(self, block=False):
        ready = []
        while self.acks:
            key, pages, event = self.acks[0]
            if block:
                event.synchronize()
            elif not event.query():
                break
            self.acks.pop(0)
            ready.append((key, {p: self.host[p].clone() for p in pages}))
        return ready


class Engine:
    def __init__(self, width=1024):
        self.cache = WriteThroughCache(48, 32, width)
        self.forward_stream = torch.cuda.Stream()
        self.w = torch.randn(width, width, device="cuda", dtype=torch.bfloat16) / width ** 0.5
        self.forward_stream.wait_stream(torch.cuda.current_stream())
        self.width = width

    def prefill(self, pages):
        self.cache.order_after_writes(self.forward_stream)
        with torch.cuda.stream(self.forward_stream):
            h = torch.randn(32, self.width, device="cuda", dtype=torch.bfloat16)
            for p in pages:
                h = torch.tanh(h @ self.w)
                self.cache.dev[p].copy_(h)

    def release(self, pages):
        self.cache.free[:0] = pages


def main():
    engine = Engine()
    stored = {}
    for rid in range(32):
        pages = engine.cache.allocate(12)
        engine.prefill(pages)
        engine.cache.write_through(rid, pages, engine.forward_stream)
        engine.release(pages)
        for key, blocks in engine.cache.poll(block=True):
            stored[key] = sum(b.float().sum().item() for b in blocks.values())
    print(len(stored), stored[31])


if __name__ == "__main__":
    main()
