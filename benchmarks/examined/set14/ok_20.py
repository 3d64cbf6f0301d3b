import torch
import torch.nn.functional as F


class Slot:
    def __init__(self, shapes, dtype):
        self.tensors = [torch.empty(s, dtype=dtype, device="cuda") for s in shapes]
        self.ready = torch.cuda.Event()
        self.free = torch.cuda.Event()


class HostExpertCache:
    """Streams the experts of each layer through a ring of device slots."""

    def __init__(self, host_layers, depth=2):
        self.host_layers = [[w.pin_memory() for w in layer] for layer in host_layers]
        shapes = [w.shape for w in host_layers[0]]
        self.slots = [Slot(shapes, host_layers[0][0].dtype) for _ in range(depth)]
        self.prefetch_stream = torch.cuda.Stream()
        self.prefetch_stream.wait_stream(torch.cuda.current_stream())

    def slot(self, layer):
        return self.slots[layer % len(self.slots)]

    def prefetch(self, layer):
        slot = self.slot(layer)
        with torch.cuda.stream(self.prefetch_stream):
            slot.free.wait()
            for dst, src in zip(slot.tensors, self.host_layers[layer]):
                dst.copy_(src, non_blocking=True)
            slot.ready.record()

    def acquire(self, layer):
        slot = self.slot(layer)
        slot.ready.wait()
        return slot.tensors

    def release(self, layer):
        self.slot(layer).free.record()


class StreamedMLP:
    def __init__(self, host_layers):
        self.cache = HostExpertCache(host_layers)
        self.num_layers = len(host_layers)

    @torch.inference_mode()
    def __call__(self, x):
        self.cache.prefetch(0)
        for layer in range(self.num_layers):
            if layer + 1 < self.num_layers:
                self.cache.prefetch(layer + 1)
            up, gate, down = self.cache.acquire(layer)
            x = x + F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)
            self.cache.release(layer)
        return x


def main(depth=24, width=2048, inter=8192):
    layers = [
        [torch.randn(inter, width).half(), torch.randn(inter, width).half(), torch.randn(width, inter).half()]
        for _ in range(depth)
    ]
    model = StreamedMLP(layers)
    x = torch.randn(16, width, dtype=torch.half, device="cuda")
    for _ in range(32):
        x = model(x)
    print(x.float().norm().item())
