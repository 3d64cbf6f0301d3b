import torch


class LayerwiseGPUConnector:
    """Moves one layer of KV at a time from the paged buffer into pinned chunks."""

    def __init__(self, kv_layers):
        self.kv_layers = kv_layers
        self.store_stream = torch.cuda.Stream()

    def batched_from_gpu(self, chunks, slot_mapping):
        for layer_id, kv in enumerate(self.kv_layers):
            current = torch.cuda.current_stream()
            self.store_stream.wait_stream(current)
            with torch.cuda.stream(self.store_stream):
                staged = kv[:, slot_mapping]
                chunks[layer_id].copy_(staged, non_blocking=True)
            yield


class StorageManager:
    def __init__(self):
        self.data = {}

    def batched_put(self, key, chunk):
        self.data[key] = chunk


class CacheEngine:
    def __init__(self, connector, storage, num_layers):
        self.connector = connector
        self.storage = storage
        self.num_layers = num_layers

    def store_layer(self, request_id, slot_mapping):
        kv = self.connector.kv_layers[0]
        n = slot_mapping.numel()
        chunks = [
            torch.empty((2, n, *kv.shape[2:]), dtype=kv.dtype, pin_memory=True)
            for _ in range(self.num_layers)
        ]
        mem_gen = self.connector.batched_from_gpu(chunks, slot_mapping)
        next(mem_gen)
        for layer_id in range(self.num_layers):
            yield
            next(mem_gen, None)
            self.storage.batched_put((request_id, layer_id), chunks[layer_id])
        self.connector.store_stream.synchronize()
        yield


class ConnectorAdapter:
    def __init__(self, engine):
        self.engine = engine
        self.storers = []
        self.current_layer = 0

    def begin_step(self, requests):
        self.requests = requests
        self.storers = []
        self.current_layer = 0

    def save_kv_layer(self):
        if self.current_layer == 0:
            for req_id, slots in self.requests:
                storer = self.engine.store_layer(req_id, slots)
                next(storer)
                self.storers.append(storer)
        for storer in self.storers:
            next(storer)
        self.current_layer += 1

    def wait_for_save(self):
        for storer in self.storers:
            storer.close()
        self.engine.connector.store_stream.synchronize()


class Attention(torch.nn.Module):
    def __init__(self, dim, heads, kv_cache, adapter):
        super().__init__()
        self.proj = torch.nn.Linear(dim, 2 * dim)
        self.heads = heads
        self.kv_cache = kv_cache
        self.adapter = adapter

    def forward(self, x, slot_mapping):
        k, v = self.proj(x).chunk(2, dim=-1)
        self.kv_cache[0, slot_mapping] = k.view(x.shape[0], self.heads, -1)
        self.kv_cache[1, slot_mapping] = v.view(x.shape[0], self.heads, -1)
        out = torch.nn.functional.scaled_dot_product_attention(x[None], k[None], v[None])[0]
        self.adapter.save_kv_layer()
        return out


@torch.inference_mode()
def prefill(layers, adapter, x, slot_mapping, req_id):
    adapter.begin_step([(req_id, slot_mapping)])
    for layer in layers:
        x = layer(x, slot_mapping)
    adapter.wait_for_save()
    return x
