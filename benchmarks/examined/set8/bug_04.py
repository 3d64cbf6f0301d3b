from typing import Generator

import torch


class LayerwiseKVConnector:
    """Copies KV of cached chunks layer by layer into the paged KV cache."""

    def __init__(self, num_layers, hidden_dim, chunk_size, dtype, device):
        self.num_layers = num_layers
        self.device = device
        self.load_stream = torch.cuda.Stream(device=device)
        self.staging = [
            torch.empty(2, chunk_size, hidden_dim, dtype=dtype, device=device)
            for _ in range(num_layers)
        ]
        self.kvcaches = None

    def initialize_kvcaches_ptr(self, **kwargs):
        if "kvcaches" in kwargs:
            self.kvcaches = kwargs["kvcaches"]

    def batched_to_gpu(self, starts, ends, **kwargs) -> Generator:
        self.initialize_kvcaches_ptr(**kwargs)
        assert self.kvcaches is not None, (
            "kvcaches should be provided in kwargs or initialized beforehand."
        )
        if "slot_mapping" not in kwargs:
            raise ValueError("'slot_mapping' should be provided in kwargs.")
        if "sync" not in kwargs:
            raise ValueError("'sync' should be provided in kwargs.")

        slot_mapping = kwargs["slot_mapping"]
        current_stream = torch.cuda.current_stream(self.device)
        self.load_stream.wait_stream(current_stream)

        for layer_id in range(self.num_layers):
            memory_objs_layer = yield
            with torch.cuda.stream(self.load_stream):
                for start, end, memory_obj in zip(starts, ends, memory_objs_layer):
                    n = end - start
                    buf = self.staging[layer_id][:, :n]
                    buf.copy_(memory_obj[:, :n], non_blocking=True)
                    slots = slot_mapping[start:end]
                    self.kvcaches[layer_id][0].index_copy_(0, slots, buf[0])
                    self.kvcaches[layer_id][1].index_copy_(0, slots, buf[1])

        yield


class LayerwiseModelRunner:

    def __init__(self, layers, connector, kvcaches):
        self.layers = layers
        self.connector = connector
        self.kvcaches = kvcaches

    def forward(self, hidden, memory_objs, starts, ends, slot_mapping):
        loader = self.connector.batched_to_gpu(
            starts, ends, kvcaches=self.kvcaches, slot_mapping=slot_mapping, sync=True)
        next(loader)
        for layer_id, layer in enumerate(self.layers):
            loader.send(memory_objs[layer_id])
            hidden = layer(hidden, self.kvcaches[layer_id], slot_mapping)
        self.connector.load_stream.synchronize()
        return hidden
