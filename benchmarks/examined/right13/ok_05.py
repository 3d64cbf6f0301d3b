"""Runs a stack of layers whose weights live in pinned host memory."""
import torch
import torch.nn.functional as F


class StreamedStack:
    def __init__(self, weights, device="cuda"):
        self.device = torch.device(device)
        self.host = [w.detach().contiguous().pin_memory() for w in weights]
        if len({w.shape for w in self.host}) != 1:
            raise ValueError("all layers must have one shape")
        self.copy = torch.cuda.Stream(self.device)
        self.slots = [torch.empty_like(self.host[0], device=self.device) for _ in range(2)]
        self.ready = [torch.cuda.Event() for _ in self.slots]
        self.free = [torch.cuda.Event() for _ in self.slots]
        for slot, free in zip(self.slots, self.free):
            slot.record_stream(self.copy)
            free.record(torch.cuda.current_stream(self.device))

    def _fetch(self, layer):
        s = layer % 2
        with torch.cuda.stream(self.copy):
            self.copy.wait_event(self.free[s])
            self.slots[s].copy_(self.host[layer], non_blocking=True)
            self.ready[s].record(self.copy)

    @torch.inference_mode()
    def __call__(self, x):
        compute = torch.cuda.current_stream(self.device)
        last = len(self.host) - 1
        self._fetch(0)
        for layer in range(len(self.host)):
            if layer < last:
                self._fetch(layer + 1)
            s = layer % 2
            compute.wait_event(self.ready[s])
            y = F.linear(x, self.slots[s])
            self.free[s].record(compute)
            x = x + F.silu(y)
        return x

    def replace(self, layer, weight):
        self.copy.synchronize()
        self.host[layer].copy_(weight)


def run(num_layers=48, dim=2048, tokens=64):
    stack = StreamedStack([torch.randn(dim, dim) / dim for _ in range(num_layers)])
    x = torch.randn(tokens, dim, device="cuda")
    for round_ in range(4):
        x = stack(x)
        stack.replace(round_, torch.randn(dim, dim) / dim)
    return x.norm().item()


if __name__ == "__main__":
    print(run())
