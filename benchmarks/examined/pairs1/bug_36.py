"""Remote and local stores plug into the engine through one connector interface."""
import abc

import torch


class KVConnector(abc.ABC):
    def __init__(self, pages):
        self.pages = pages
        self.side = torch.cuda.Stream()
        self.loaded = torch.cuda.Event()

    def bind(self, mapping):
        self.mapping = mapping

    def start_load_kv(self):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.fill(self.mapping)
            self.loaded.record()

    def wait_for_layer_load(self, layer):
        self.loaded.wait()

    @abc.abstractmethod
    def fill(self, mapping):
        ...


class LocalStore(KVConnector):
    def __init__(self, pages, store):
        super().__init__(pages)
        self.store = store
        self.layers_seen = set()

    def fill(self, mapping):
        for src, dst in mapping.items():
            self.pages[:, dst].copy_(self.store[:, src], non_blocking=True)

    def wait_for_layer_load(self, layer):
        self.layers_seen.add(layer)


@torch.inference_mode()
def run(layers=8, dim=256, steps=50):
    pages = torch.zeros(layers, 64, 16, dim, device="cuda")
    store = torch.randn(layers, 512, 16, dim).pin_memory()
    connector = LocalStore(pages, store)
    w = torch.randn(layers, dim, dim, device="cuda") / 16
    x = torch.randn(8, dim, device="cuda")
    for step in range(steps):
        connector.bind({(step * 64 + i) % 512: i for i in range(64)})
        connector.start_load_kv()
        for layer in range(layers):
            q = x @ w[layer]
            connector.wait_for_layer_load(layer)
            mem = pages[layer].flatten(0, 1)
            x = x + (q @ mem.T).softmax(-1) @ mem
    return x.cpu(), len(connector.layers_seen)


if __name__ == "__main__":
    print(run()[1])
