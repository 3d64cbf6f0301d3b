import threading
from queue import Queue

import torch


class LayerFuture:
    """Becomes waitable once the server thread has recorded the layer's event."""

    def __init__(self):
        self.event = torch.cuda.Event()
        self.issued = threading.Event()

    def set(self):
        self.issued.set()

    def wait_on(self, stream):
        self.issued.wait()
        stream.wait_event(self.event)


class LoadRequest:
    def __init__(self, keys, slots, start_event, num_layers):
        self.keys = keys
        self.slots = slots
        self.start_event = start_event
        self.layers = [LayerFuture() for _ in range(num_layers)]


class TransferServer(threading.Thread):
    """Scatters cached chunks into the paged KV, layer by layer, through two staging buffers."""

    def __init__(self, store, kv_layers, max_tokens):
        super().__init__(daemon=True)
        self.store = store
        self.kv_layers = kv_layers
        self.device = kv_layers[0].device
        self.stream = torch.cuda.Stream(self.device)
        shape = (max_tokens, *kv_layers[0].shape[1:])
        dtype = kv_layers[0].dtype
        self.host = [torch.empty(shape, dtype=dtype, pin_memory=True) for _ in range(2)]
        self.uploaded = [torch.cuda.Event() for _ in range(2)]
        self.requests = Queue()

    def _load_layer(self, request, layer, slots, turn):
        host, uploaded = self.host[turn], self.uploaded[turn]
        uploaded.synchronize()
        n = 0
        for key in request.keys:
            chunk = self.store[(key, layer)]
            host[n : n + chunk.shape[0]].copy_(chunk)
            n += chunk.shape[0]
        with torch.cuda.stream(self.stream):
            dev = host[:n].to(self.device, non_blocking=True)
            uploaded.record(self.stream)
            self.kv_layers[layer].index_copy_(0, slots[:n], dev)
            request.layers[layer].event.record(self.stream)
        request.layers[layer].set()

    @torch.inference_mode()
    def run(self):
        torch.cuda.set_device(self.device)
        while True:
            request = self.requests.get()
            if request is None:
                return
            self.stream.wait_event(request.start_event)
            with torch.cuda.stream(self.stream):
                slots = request.slots.to(self.device)
            for layer in range(len(self.kv_layers)):
                self._load_layer(request, layer, slots, layer % 2)


class LayerwiseConnector:
    def __init__(self, server, num_layers):
        self.server = server
        self.num_layers = num_layers
        self.request = None

    def start_load_kv(self, keys, slots):
        event = torch.cuda.Event()
        event.record()
        self.request = LoadRequest(keys, slots, event, self.num_layers)
        self.server.requests.put(self.request)

    def wait_for_layer_load(self, layer):
        if self.request is not None:
            self.request.layers[layer].wait_on(torch.cuda.current_stream())

    def finish(self):
        self.request = None


@torch.inference_mode()
def run_steps(layers, kv_layers, store, steps, max_tokens):
    server = TransferServer(store, kv_layers, max_tokens)
    torch.cuda.synchronize()
    server.start()
    connector = LayerwiseConnector(server, len(layers))
    results = []
    for x, keys, slots in steps:
        if keys:
            connector.start_load_kv(keys, slots)
        x = x.to("cuda")
        for i, layer in enumerate(layers):
            connector.wait_for_layer_load(i)
            x = layer(x, kv_layers[i])
        connector.finish()
        results.append(x.mean().item())
    server.requests.put(None)
    server.join()
    return results
