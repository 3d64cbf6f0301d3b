import torch
import torch.nn as nn


class Slot:
    def __init__(self, w1_shape, w2_shape, dtype):
        self.w1 = torch.empty(w1_shape, dtype=dtype, device="cuda")
        self.w2 = torch.empty(w2_shape, dtype=dtype, device="cuda")
        self.ready = torch.cuda.Event()
        self.released = torch.cuda.Event()


class MoEPrefetchManager:
    """Streams the expert weights of the layers through a small ring of device buffers."""

    def __init__(self, depth_of_ring, w1_shape, w2_shape, dtype=torch.float16):
        self.slots = [Slot(w1_shape, w2_shape, dtype) for _ in range(depth_of_ring)]
        self.host = []
        self.stream = torch.cuda.Stream()
        self.issued = 0
        self.consumed = 0

    def register(self, w1, w2):
        self.host.append((w1.pin_memory(), w2.pin_memory()))

    def begin(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        self.issued = self.consumed = 0
        for _ in range(min(len(self.slots), len(self.host))):
            self._issue()

    def _issue(self):
        layer = self.issued
        slot = self.slots[layer % len(self.slots)]
        with torch.cuda.stream(self.stream):
            if layer >= len(self.slots):
                self.stream.wait_event(slot.released)
            w1, w2 = self.host[layer]
            slot.w1.copy_(w1, non_blocking=True)
            slot.w2.copy_(w2, non_blocking=True)
            slot.ready.record(self.stream)
        self.issued += 1

    def acquire(self, layer):
        slot = self.slots[layer % len(self.slots)]
        torch.cuda.current_stream().wait_event(slot.ready)
        return slot

    def release(self, layer):
        slot = self.slots[layer % len(self.slots)]
        slot.released.record(torch.cuda.current_stream())
        self.consumed += 1
        if self.issued < len(self.host):
            self._issue()


class PrefetchedMoE(nn.Module):
    def __init__(self, layer, manager, dim, experts):
        super().__init__()
        self.layer = layer
        self.manager = manager
        self.router = nn.Linear(dim, experts, bias=False).half()

    def forward(self, x):
        probs = torch.softmax(self.router(x).float(), dim=-1).to(x.dtype)
        slot = self.manager.acquire(self.layer)
        h = torch.relu(torch.einsum("td,edf->tef", x, slot.w1))
        y = torch.einsum("tef,efd,te->td", h, slot.w2, probs)
        self.manager.release(self.layer)
        return x + y


@torch.inference_mode()
def main():
    dim, inter, experts, depth = 512, 1024, 8, 12
    manager = MoEPrefetchManager(3, (experts, dim, inter), (experts, inter, dim))
    for _ in range(depth):
        w1 = torch.randn(experts, dim, inter, dtype=torch.float16) * 0.02
        w2 = torch.randn(experts, inter, dim, dtype=torch.float16) * 0.02
        manager.register(w1, w2)
    layers = nn.ModuleList(PrefetchedMoE(i, manager, dim, experts) for i in range(depth)).cuda()
    x = torch.randn(32, dim, dtype=torch.float16, device="cuda")
    for _ in range(16):
        manager.begin()
        for layer in layers:
            x = layer(x)
        x = torch.nn.functional.layer_norm(x, (dim,))
    print(x.float().std().item())


if __name__ == "__main__":
    main()
