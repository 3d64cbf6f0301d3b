"""Layerwise KV storage: each attention layer hands its pages to the cache engine."""
import torch


class LayerwiseGPUConnector:
    def __init__(self, kvcaches):
        self.kvcaches = kvcaches
        self.store_stream = torch.cuda.Stream()

    def batched_from_gpu(self, memory_objs, slot_mapping):
        """Yield once per layer after that layer's copy was issued."""
        slot_mapping.record_stream(self.store_stream)
        for layer_id, cache in enumerate(self.kvcaches):
            self.store_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.store_stream):
                gathered = cache.index_select(0, slot_mapping)
                memory_objs[layer_id].copy_(gathered, non_blocking=True)
            yield

    def synchronize(self):
        self.store_stream.synchronize()


class CacheEngine:
    def __init__(self, connector, num_layers, dim):
        self.connector = connector
        self.num_layers = num_layers
        self.dim = dim
        self.storage = {}

    def allocate(self, num_tokens):
        return [
            torch.empty(num_tokens, self.dim, dtype=torch.half, pin_memory=True)
            for _ in range(self.num_layers)
        ]

    def store_layer(self, key, slot_mapping):
        memory_objs = self.allocate(slot_mapping.numel())
        mem_obj_generator = self.connector.batched_from_gpu(memory_objs, slot_mapping)
        next(mem_obj_generator)
        for layer_id in range(self.num_layers):
            yield
            next(mem_obj_generator, None)
            self.storage[(key, layer_id)] = memory_objs[layer_id]
        yield


class ConnectorAdapter:
    def __init__(self, engine):
        self.engine = engine
        self.requests = []
        self.layerwise_storers = []
        self.current_layer = 0

    def start_step(self, requests):
        self.requests = requests
        self.layerwise_storers = []
        self.current_layer = 0

    def save_kv_layer(self):
        if self.current_layer == 0:
            for key, slot_mapping in self.requests:
                storer = self.engine.store_layer(key, slot_mapping)
                next(storer)
                self.layerwise_storers.append(storer)
        for layerwise_storer in self.layerwise_storers:
            next(layerwise_storer)
        self.current_layer += 1

    def wait_for_save(self):
        self.engine.connector.synchronize()


class Model:
    def __init__(self, num_layers, num_slots, dim, adapter_factory):
        self.kvcaches = [torch.zeros(num_slots, dim, device="cuda", dtype=torch.half) for _ in range(num_layers)]
        self.weights = [torch.randn(dim, dim, device="cuda", dtype=torch.half) / dim ** 0.5 for _ in range(num_layers)]
        self.adapter = adapter_factory(self.kvcaches)

    def forward(self, hidden, slots, requests):
        self.adapter.start_step(requests)
        for weight, cache in zip(self.weights, self.kvcaches):
            hidden = torch.tanh(hidden @ weight)
            cache.index_copy_(0, slots, hidden)
            self.adapter.save_kv_layer()
        self.adapter.wait_for_save()
        return hidden


def main(num_layers=32, num_slots=8192, dim=1024):
    def build(kvcaches):
        connector = LayerwiseGPUConnector(kvcaches)
        return ConnectorAdapter(CacheEngine(connector, num_layers, dim))

    model = Model(num_layers, num_slots, dim, build)
    for step in range(8):
        slots = torch.arange(step * 512, (step + 1) * 512, device="cuda")
        hidden = torch.randn(512, dim, device="cuda", dtype=torch.half)
        model.forward(hidden, slots, [(step, slots)])
    print(len(model.adapter.engine.storage))


if __name__ == "__main__":
    main()
