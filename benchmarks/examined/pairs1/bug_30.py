"""Prefix reuse: each attention layer pulls its share of the stored cache just in time."""
import torch
from torch import nn


class LayerPuller:
    def __init__(self, pool, store):
        self.pool = pool
        self.store = store
        self.io = torch.cuda.Stream()
        self.done = {}

    def _issue(self, layer, mapping):
        with torch.cuda.stream(self.io):
            for src, dst in mapping.items():
                self.pool[layer, dst].copy_(self.store[layer, src], non_blocking=True)
            self.done[layer] = self.io.record_event()

    def stream_layers(self, mapping):
        compute = torch.cuda.current_stream()
        self.io.wait_stream(compute)
        for layer in range(self.pool.shape[0]):
            self._issue(layer, mapping)
            if layer > 0:
                compute.wait_event(self.done[layer - 1])
            yield layer
        compute.wait_event(self.done[self.pool.shape[0] - 1])


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q = nn.Linear(width, width, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x, memory):
        return x + self.o((self.q(x) @ memory.T).softmax(-1) @ memory)


@torch.inference_mode()
def answer(num_layers=12, width=512, queries=30):
    pool = torch.zeros(num_layers, 32, 16, width, device="cuda")
    store = torch.randn(num_layers, 256, 16, width).pin_memory()
    blocks = nn.ModuleList(Block(width) for _ in range(num_layers)).cuda()
    puller = LayerPuller(pool, store)
    x = torch.randn(2, width, device="cuda")
    for qi in range(queries):
        mapping = {(qi * 32 + j) % 256: j for j in range(32)}
        for layer in puller.stream_layers(mapping):
            x = blocks[layer](x, pool[layer].flatten(0, 1))
        x = nn.functional.layer_norm(x, (width,))
    return x.cpu()


if __name__ == "__main__":
    print(answer())
