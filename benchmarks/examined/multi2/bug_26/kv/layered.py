import torch


class _Page:
    __slots__ = ("k", "v")

    def __init__(self, k, v):
        self.k, self.v = k, v

    def like(self, device, pin=False):
        make = lambda t: torch.empty(t.shape, dtype=t.dtype, device=device, pin_memory=pin)
        return _Page(make(self.k), make(self.v))

    def copy_(self, other):
        self.k.copy_(other.k, non_blocking=True)
        self.v.copy_(other.v, non_blocking=True)
        return self


class HostBackedCache:
    """Prompt keys and values live on the host; two device windows hold the
    layer being computed and the next one."""

    def __init__(self, pages, device):
        self.device = torch.device(device)
        self.home = [p.like("cpu", pin=True).copy_(p) for p in pages]
        self.windows = [pages[0].like(self.device) for _ in range(2)]
        self.prefetch_stream = torch.cuda.Stream(self.device)
        torch.cuda.synchronize(self.device)

    @classmethod
    def from_tensors(cls, pairs, device):
        return cls([_Page(k, v) for k, v in pairs], device)

    def __len__(self):
        return len(self.home)

    def _window(self, layer):
        return self.windows[layer % 2]

    def prefetch(self, layer):
        layer = layer % len(self)
        self.prefetch_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.prefetch_stream):
            self._window(layer).copy_(self.home[layer])

    def arrive(self, layer):
        """Device keys and values of a layer, safe to read."""
        torch.cuda.default_stream(self.device).wait_stream(self.prefetch_stream)
        page = self._window(layer)
        self.prefetch(layer + 1)
        return page.k, page.v
