"""Hierarchical KV cache: host tier loaded back into device pages layer by layer."""
import torch


class DevicePages:
    def __init__(self, pages, page_size, width):
        self.kv = torch.zeros(pages, page_size, width, device="cuda", dtype=torch.float16)
        self._free = list(range(pages))

    def alloc(self, n):
        taken, self._free = self._free[-n:], self._free[:-n]
        return taken

    def release(self, pages):
        self._free.extend(pages)


class HostTier:
    def __init__(self, pages, page_size, width):
        self.kv = torch.zeros(pages, page_size, width, dtype=torch.float16, pin_memory=True)
        self.where = {}

    def put_prefix(self, key, rows):
        self.where[key] = rows


class CacheController:
    def __init__(self, device_pages, host_tier):
        self.dev = device_pages
        self.host = host_tier
        self.load_stream = torch.cuda.Stream()
        self.loaded = {}

    def load_back(self, key):
        rows = self.host.where[key]
        pages = self.dev.alloc(len(rows))
        event = torch.cuda.Event()
        with torch.cuda.stream(self.load_stream):
            for row, page in zip(rows, pages):
                self.dev.kv[page].copy_(self.host.kv[row], non_blocking=True)
            event.record()
        self.loaded[key] = event
        return pages

    def wait_loaded(self, key, stream):
        event = self.loaded.pop(key, None)
        if event is not None:
            stream.wait_event(event)


class Runner:
    def __init__(self, width=1024):
        self.pages = DevicePages(64, 32, width)
        self.host = HostTier(64, 32, width)
        self.ctl = CacheController(self.pages, self.host)
        self.forward_stream = torch.cuda.Stream()
        self.weight = torch.randn(width, width, device="cuda", dtype=torch.float16)

    def forward(self, pages, hidden, key=None):
        self.forward_stream.wait_stream(torch.cuda.current_stream())
        if key is not None:
            self.ctl.wait_loaded(key, self.forward_stream)
        with torch.cuda.stream(self.forward_stream):
            out = hidden
            for page in pages:
                out = torch.tanh(out @ self.weight) + self.pages.kv[page]
                self.pages.kv[page].copy_(out)
        hidden.record_stream(self.forward_stream)
        return out

    def retire(self, pages):
        self.pages.release(pages)


def serve(runner, rounds=8):
    runner.host.put_prefix("system", list(range(8)))
    outs = []
    for _ in range(rounds):
        hidden = torch.randn(32, 1024, device="cuda", dtype=torch.float16)
        mine = runner.pages.alloc(8)
        outs.append(runner.forward(mine, hidden))
        runner.retire(mine)

        restored = runner.ctl.load_back("system")
        prompt = torch.randn(32, 1024, device="cuda", dtype=torch.float16)
        outs.append(runner.forward(restored, prompt, key="system"))
        torch.cuda.current_stream().wait_stream(runner.forward_stream)
        runner.forward_stream.synchronize()
        runner.retire(restored)
    return outs


if __name__ == "__main__":
    results = serve(Runner())
    print(sum(r.float().mean().item() for r in results))
