"""Ships per-layer keys and values to a decode GPU while prefill continues."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class KVSender:
    def __init__(self, layers, max_tokens, width, source, target):
        self.source = torch.device(source)
        self.target = torch.device(target)
        self.out = torch.cuda.Stream(self.source)
        self.inbound = torch.cuda.Stream(self.target)
        with torch.cuda.stream(self.inbound):
            self.cache = torch.zeros(
                layers, 2, max_tokens, width, dtype=torch.float16, device=self.target
            )

    def send(self, layer, key, value):
        tokens = key.shape[0]
        self.inbound.wait_stream(torch.cuda.current_stream(self.target))
        made = torch.cuda.current_stream(self.source).record_event()
        self.out.wait_event(made)
        with torch.cuda.stream(self.out), torch.cuda.stream(self.inbound):
            self.cache[layer, 0, :tokens].copy_(key, non_blocking=True)
            self.cache[layer, 1, :tokens].copy_(value, non_blocking=True)
        key.record_stream(self.out)
        value.record_stream(self.out)

    def view(self, tokens):
        reader = torch.cuda.current_stream(self.target)
        reader.wait_stream(self.inbound)
        self.cache.record_stream(reader)
        return self.cache[:, :, :tokens]


class PrefillLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        att = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)
        return x + self.proj(att[0]), k.contiguous(), v.contiguous()


class Prefill:
    def __init__(self, width=2048, depth=16, max_tokens=4096):
        self.layers = [PrefillLayer(width).half().to("cuda:0") for _ in range(depth)]
        self.sender = KVSender(depth, max_tokens, width, "cuda:0", "cuda:1")

    @torch.inference_mode()
    def run(self, x):
        tokens = x.shape[0]
        for index, layer in enumerate(self.layers):
            x, key, value = layer(x)
            self.sender.send(index, key, value)
        return x, self.sender.view(tokens).clone()
