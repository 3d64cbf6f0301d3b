import torch
from torch import nn
import torch.nn.functional as F


class OffloadedCache:
    """KV cache that keeps the current and the next layer on the device and the others on the host."""

    def __init__(self, num_layers, device="cuda"):
        self.key_cache = [None] * num_layers
        self.value_cache = [None] * num_layers
        self.device = torch.device(device)
        self.prefetch_stream = torch.cuda.Stream()

    def __len__(self):
        return len(self.key_cache)

    def prefetch_layer(self, layer_idx):
        if self.key_cache[layer_idx] is None:
            return
        with torch.cuda.stream(self.prefetch_stream):
            self.key_cache[layer_idx] = self.key_cache[layer_idx].to(self.device, non_blocking=True)
            self.value_cache[layer_idx] = self.value_cache[layer_idx].to(self.device, non_blocking=True)

    def evict_previous_layer(self, layer_idx):
        prev = (layer_idx - 1) % len(self)
        if prev == layer_idx or self.key_cache[prev] is None:
            return
        self.key_cache[prev] = self.key_cache[prev].to("cpu", non_blocking=True)
        self.value_cache[prev] = self.value_cache[prev].to("cpu", non_blocking=True)

    def update(self, key, value, layer_idx):
        torch.cuda.current_stream().wait_stream(self.prefetch_stream)
        self.evict_previous_layer(layer_idx)
        self.prefetch_layer((layer_idx + 1) % len(self))
        if self.key_cache[layer_idx] is None:
            self.key_cache[layer_idx], self.value_cache[layer_idx] = key, value
        else:
            self.key_cache[layer_idx] = torch.cat([self.key_cache[layer_idx], key], dim=-2)
            self.value_cache[layer_idx] = torch.cat([self.value_cache[layer_idx], value], dim=-2)
        return self.key_cache[layer_idx], self.value_cache[layer_idx]


class Attention(nn.Module):
    def __init__(self, hidden, heads, layer_idx):
        super().__init__()
        self.heads, self.layer_idx = heads, layer_idx
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x, cache):
        b, t, h = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, h // self.heads).permute(2, 0, 3, 1, 4)
        k, v = cache.update(k, v, self.layer_idx)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        return self.out(y.transpose(1, 2).reshape(b, t, h))


class TinyLM(nn.Module):
    def __init__(self, vocab=32000, hidden=2048, heads=16, layers=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.layers = nn.ModuleList(Attention(hidden, heads, i) for i in range(layers))
        self.head = nn.Linear(hidden, vocab, bias=False)

    def forward(self, ids, cache):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer(x, cache)
        return self.head(x[:, -1])


@torch.inference_mode()
def generate(model, prompt_ids, max_new_tokens):
    cache = OffloadedCache(len(model.layers))
    ids = prompt_ids.cuda()
    generated = [ids]
    for _ in range(max_new_tokens):
        ids = model(ids, cache).argmax(dim=-1, keepdim=True)
        generated.append(ids)
    return torch.cat(generated, dim=1).cpu()


if __name__ == "__main__":
    lm = TinyLM().half().cuda().eval()
    print(generate(lm, torch.randint(0, 32000, (4, 4096)), 64).shape)
