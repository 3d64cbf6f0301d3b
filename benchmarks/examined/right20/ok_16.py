import torch
from transformers import DynamicCache


class HostCache(DynamicCache):
    """Keeps at most two layers on the GPU; the rest lives on pinned host memory."""

    def __init__(self):
        super().__init__()
        self.moved = []
        self.prefetch = torch.cuda.Stream()

    def _evict(self, idx):
        here = torch.cuda.current_stream()
        for store in (self.key_cache, self.value_cache):
            t = store[idx]
            host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
            host.copy_(t, non_blocking=True)
            store[idx] = host
        self.moved[idx] = here.record_event()

    def _fetch(self, idx):
        with torch.cuda.stream(self.prefetch):
            self.prefetch.wait_event(self.moved[idx])
            self.key_cache[idx] = self.key_cache[idx].to("cuda", non_blocking=True)
            self.value_cache[idx] = self.value_cache[idx].to("cuda", non_blocking=True)

    def update(self, key, value, idx, cache_kwargs=None):
        here = torch.cuda.current_stream()
        if idx == len(self.key_cache):
            self.key_cache.append(key)
            self.value_cache.append(value)
            self.moved.append(None)
            if idx > 0:
                self._evict(idx - 1)
            return key, value
        here.wait_stream(self.prefetch)
        if self.key_cache[idx].device.type == "cpu":
            self._fetch(idx)
            here.wait_stream(self.prefetch)
        k, v = self.key_cache[idx], self.value_cache[idx]
        k.record_stream(here)
        v.record_stream(here)
        k = torch.cat([k, key], dim=-2)
        v = torch.cat([v, value], dim=-2)
        self.key_cache[idx], self.value_cache[idx] = k, v
        if len(self.key_cache) > 1:
            self._evict((idx - 1) % len(self.key_cache))
            nxt = (idx + 1) % len(self.key_cache)
            if self.key_cache[nxt].device.type == "cpu":
                self._fetch(nxt)
        return k, v


@torch.no_grad()
def decode(layers=6, heads=8, dim=64, prompt=128, steps=32):
    cache = HostCache()
    w = torch.randn(layers, 3, heads * dim, heads * dim, device="cuda") * 0.02
    x = torch.randn(1, prompt, heads * dim, device="cuda")
    for step in range(steps):
        for i in range(layers):
            q, k, v = ((x @ w[i, j]).view(1, -1, heads, dim).transpose(1, 2) for j in range(3))
            k, v = cache.update(k, v, i)
            a = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=step == 0)
            x = x + a.transpose(1, 2).reshape(1, -1, heads * dim)
        x = x[:, -1:]
    return x.norm().item()


if __name__ == "__main__":
    print(decode())
