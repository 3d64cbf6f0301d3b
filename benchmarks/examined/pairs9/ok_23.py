"""Long-context cache whose cold pages are kept in int8; (de)quantisation has its own stream."""
import functools

import torch


def on_stream(attribute):
    """Runs a method on the stream stored under `attribute`."""

    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(self, *args, **kwargs):
            side = getattr(self, attribute)
            caller = torch.cuda.current_stream()
            side.wait_stream(caller)
            try:
                with torch.cuda.stream(side):
                    return fn(self, *args, **kwargs)
            finally:
                caller.wait_stream(side)

        return wrapper

    return decorate


class ColdCache:
    def __init__(self):
        self.quant_stream = torch.cuda.Stream()
        self.pages = {}

    @on_stream("quant_stream")
    def freeze(self, key, page):
        scale = page.abs().amax(-1, keepdim=True).clamp_min_(1e-6) / 127
        self.pages[key] = ((page / scale).round_().to(torch.int8), scale)

    @on_stream("quant_stream")
    def thaw(self, keys):
        out = []
        for key in keys:
            q, scale = self.pages[key]
            out.append(q.to(scale.dtype) * scale)
        return torch.cat(out)

    def evict(self, key):
        del self.pages[key]


class Attention:
    def __init__(self, dim, cache, hot=4):
        self.wk = torch.randn(dim, dim, device="cuda") / dim ** 0.5
        self.cache = cache
        self.hot = hot
        self.recent = []

    def step(self, i, x):
        self.recent.append((i, x @ self.wk))
        if len(self.recent) > self.hot:
            key, page = self.recent.pop(0)
            self.cache.freeze(key, page)
        if len(self.cache.pages) > 16:
            self.cache.evict(min(self.cache.pages))
        keys = [page for _, page in self.recent]
        if self.cache.pages:
            keys.append(self.cache.thaw(sorted(self.cache.pages)))
        k = torch.cat(keys)
        return (x @ k.T).softmax(-1) @ k


@torch.inference_mode()
def main():
    attn = Attention(512, ColdCache())
    x = torch.randn(128, 512, device="cuda")
    for i in range(64):
        x = torch.nn.functional.layer_norm(x + attn.step(i, x), (512,))
    print(x.mean().item())


if __name__ == "__main__":
    main()
