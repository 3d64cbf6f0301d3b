"""Layer by layer retrieval of cached KV chunks: pinned memory -> staging on the GPU -> paged cache."""
import torch


class PinnedChunks:
    def __init__(self, layers, tokens, hidden):
        self.layers = [torch.randn((2, tokens, hidden)).half().pin_memory() for _ in range(layers)]

    def layer(self, index):
        return self.layers[index]


class PagedCache:
    def __init__(self, layers, slots, hidden, device):
        self.kv = [torch.zeros((2, slots, hidden), dtype=torch.float16, device=device) for _ in range(layers)]


class LayerwiseGPUConnector:
    """Two staging buffers alternate between the layers."""

    def __init__(self, max_tokens, hidden, device):
        self.device = device
        self.load_stream = torch.cuda.Stream(device)
        self.staging = [
            torch.zeros((2, max_tokens, hidden), dtype=torch.float16, device=device) for _ in range(2)
        ]
        self.loaded = [torch.cuda.Event() for _ in range(2)]
        torch.cuda.synchronize(device)

    def start_load(self, index, chunk):
        slot = index % 2
        tokens = chunk.shape[1]
        with torch.cuda.stream(self.load_stream):
            self.staging[slot][:, :tokens].copy_(chunk, non_blocking=True)
            self.loaded[slot].record()
        return slot, tokens

    def scatter(self, slot, tokens, cache_layer, slot_mapping):
        torch.cuda.current_stream(self.device).wait_event(self.loaded[slot])
        cache_layer[:, slot_mapping] = self.staging[slot][:, :tokens]


def retrieve_layers(connector, chunks, cache, slot_mapping):
    """Generator: after each `next`, one more layer of the paged cache is usable on the current stream."""
    n = len(cache.kv)
    pending = connector.start_load(0, chunks.layer(0))
    for index in range(n):
        upcoming = None
        if index + 1 < n:
            upcoming = connector.start_load(index + 1, chunks.layer(index + 1))
        slot, tokens = pending
        connector.scatter(slot, tokens, cache.kv[index], slot_mapping)
        yield index
        pending = upcoming


class Attention(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.q = torch.nn.Linear(hidden, hidden, dtype=torch.float16)
        self.o = torch.nn.Linear(hidden, hidden, dtype=torch.float16)

    def forward(self, x, kv, slot_mapping):
        k, v = kv[0, slot_mapping], kv[1, slot_mapping]
        return x + self.o(torch.nn.functional.scaled_dot_product_attention(self.q(x), k, v))


class Worker:
    def __init__(self, layers=32, slots=8192, hidden=1024, max_tokens=2048, device="cuda:0"):
        self.device = torch.device(device)
        self.cache = PagedCache(layers, slots, hidden, self.device)
        self.connector = LayerwiseGPUConnector(max_tokens, hidden, self.device)
        self.attn = torch.nn.ModuleList(Attention(hidden) for _ in range(layers)).to(self.device)

    @torch.inference_mode()
    def forward(self, x, chunks, slot_mapping):
        retriever = retrieve_layers(self.connector, chunks, self.cache, slot_mapping)
        for index, layer in enumerate(self.attn):
            next(retriever)
            x = layer(x, self.cache.kv[index], slot_mapping)
        return x
