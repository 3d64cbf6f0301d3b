"""Layer-wise KV load from a host store, overlapped with attention."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class HostKVStore:
    """Page-locked pages by content hash; one tensor for each layer."""

    def __init__(self):
        self._pages = {}

    def put(self, key, layers):
        self._pages[key] = [t.pin_memory() for t in layers]

    def get(self, key):
        return self._pages[key]


class LayerwiseLoader:
    def __init__(self, kv_caches, device):
        self.device = torch.device(device)
        self.kv_caches = kv_caches
        self.load_stream = torch.cuda.Stream(device)
        self.layer_ready = [torch.cuda.Event() for _ in kv_caches]

    def start_load(self, pages, prefix_len):
        self.load_stream.wait_stream(torch.cuda.current_stream(self.device))
        for layer_id, cache in enumerate(self.kv_caches):
            with torch.cuda.stream(self.load_stream):
                cache[:, :prefix_len].copy_(pages[layer_id], non_blocking=True)
            self.layer_ready[layer_id].record()

    def wait_for_layer_load(self, layer_id):
        torch.cuda.current_stream(self.device).wait_event(self.layer_ready[layer_id])


class AttentionLayer(nn.Module):
    def __init__(self, layer_id, width, heads, loader):
        super().__init__()
        self.layer_id = layer_id
        self.heads = heads
        self.loader = loader
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def _split(self, t):
        return t.view(t.shape[0], self.heads, -1).transpose(0, 1)

    def forward(self, x, prefix_len):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        self.loader.wait_for_layer_load(self.layer_id)
        cache = self.loader.kv_caches[self.layer_id]
        end = prefix_len + x.shape[0]
        cache[0, prefix_len:end] = k
        cache[1, prefix_len:end] = v
        past_k, past_v = cache[0, :end], cache[1, :end]
        ctx = F.scaled_dot_product_attention(
            self._split(q), self._split(past_k), self._split(past_v))
        return x + self.out(ctx.transpose(0, 1).reshape(x.shape))


class PrefillWorker:
    def __init__(self, layers, width, max_len, device="cuda:0"):
        self.device = device
        self.store = HostKVStore()
        self.kv = [torch.zeros(2, max_len, width, device=device) for _ in range(layers)]
        self.loader = LayerwiseLoader(self.kv, device)
        self.layers = nn.ModuleList(
            [AttentionLayer(i, width, 8, self.loader) for i in range(layers)]).to(device)

    @torch.inference_mode()
    def run(self, key, suffix):
        pages = self.store.get(key)
        prefix_len = pages[0].shape[1]
        self.loader.start_load(pages, prefix_len)
        x = suffix.to(self.device)
        for layer in self.layers:
            x = layer(x, prefix_len)
        return x[-1].cpu()


def main():
    worker = PrefillWorker(12, 512, 8192)
    for i in range(4):
        worker.store.put(i, [torch.randn(2, 4096, 512) for _ in range(12)])
    for i in range(4):
        print(worker.run(i, torch.randn(128, 512)).norm().item())


if __name__ == "__main__":
    main()
