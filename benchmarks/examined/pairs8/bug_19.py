import torch


class HiCacheWriter:
    def __init__(self, capacity, page_elems):
        self.pages = torch.empty(capacity, page_elems, dtype=torch.bfloat16, pin_memory=True)
        self.write_stream = torch.cuda.Stream()
        self.next = 0
        self.done = []

    def backup(self, k_buffer, v_buffer, token_ids):
        for buf in (k_buffer, v_buffer):
            page = buf[token_ids].flatten()
            ready = torch.cuda.Event()
            ready.record()
            with torch.cuda.stream(self.write_stream):
                ready.wait()
                self.pages[self.next].copy_(page, non_blocking=True)
                finished = torch.cuda.Event()
                finished.record()
            self.done.append((self.next, finished))
            self.next += 1

    def drain(self):
        for row, event in self.done:
            event.synchronize()
            yield row, self.pages[row]


class RadixEngine:
    def __init__(self, tokens=16384, heads=1024):
        self.k = torch.randn(tokens, heads, dtype=torch.bfloat16, device="cuda")
        self.v = torch.randn(tokens, heads, dtype=torch.bfloat16, device="cuda")
        self.writer = HiCacheWriter(64, 512 * heads)

    def decode(self, token_ids):
        update = torch.rand(token_ids.numel(), self.k.shape[1], dtype=torch.bfloat16, device="cuda")
        self.k[token_ids] = update
        self.v[token_ids] = update * 0.5


def main():
    engine = RadixEngine()
    for step in range(32):
        ids = torch.arange(step * 512, step * 512 + 512, device="cuda") % 16384
        engine.decode(ids)
        engine.writer.backup(engine.k, engine.v, ids)
    print({row: page.float().mean().item() for row, page in engine.writer.drain()})


if __name__ == "__main__":
    main()
