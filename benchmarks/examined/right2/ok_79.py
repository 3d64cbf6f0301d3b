"""Layer-wise weight streaming through two device slots."""
import torch
import torch.nn as nn


class Slot:
    def __init__(self, template):
        self.tensors = {
            name: torch.empty(p.shape, dtype=p.dtype, device="cuda")
            for name, p in template.named_parameters()
        }
        self.ready = torch.cuda.Event()
        self.released = torch.cuda.Event()


class WeightStreamer:
    def __init__(self, layers):
        self.layers = list(layers)
        self.masters = [
            {name: p.detach().cpu().pin_memory() for name, p in layer.named_parameters()}
            for layer in self.layers
        ]
        self.slots = [Slot(self.layers[0]) for _ in range(2)]
        self.copy_stream = torch.cuda.Stream()
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        self.fetched = 0
        self.assigned = {}
        for index, layer in enumerate(self.layers):
            self._detach(layer)
            layer.register_forward_pre_hook(self._pre(index))
            layer.register_forward_hook(self._post(index))
        self._fetch(0)

    @staticmethod
    def _detach(layer):
        for p in layer.parameters():
            p.data = torch.empty(0, dtype=p.dtype, device="cuda")

    def _fetch(self, index):
        slot = self.slots[self.fetched % len(self.slots)]
        self.fetched += 1
        self.assigned[index] = slot
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(slot.released)
            for name, master in self.masters[index].items():
                slot.tensors[name].copy_(master, non_blocking=True)
            slot.ready.record()

    def _pre(self, index):
        def hook(layer, args):
            slot = self.assigned[index]
            torch.cuda.current_stream().wait_event(slot.ready)
            for name, p in layer.named_parameters():
                p.data = slot.tensors[name]
            self._fetch((index + 1) % len(self.layers))

        return hook

    def _post(self, index):
        def hook(layer, args, output):
            self.assigned.pop(index).released.record()
            self._detach(layer)

        return hook

    def close(self):
        self.copy_stream.synchronize()
        self.assigned.clear()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


@torch.no_grad()
def main(depth=7, width=1024, steps=5):
    blocks = [Block(width) for _ in range(depth)]
    streamer = WeightStreamer(blocks)
    x = torch.randn(32, width, device="cuda")
    try:
        for _ in range(steps):
            for block in streamer.layers:
                x = block(x)
            x = torch.nn.functional.layer_norm(x, (width,))
        return x.abs().mean().item()
    finally:
        streamer.close()


if __name__ == "__main__":
    print(main())
