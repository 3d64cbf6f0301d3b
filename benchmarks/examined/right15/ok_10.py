"""Runs a stack of layers whose weights live on the host, two at a time on the device."""
import torch


class StreamedStack:
    def __init__(self, weights, device="cuda:0"):
        self.device = torch.device(device)
        if len({w.shape for w in weights}) != 1:
            raise ValueError("layers must share one shape")
        self.host = [w.contiguous().pin_memory() for w in weights]
        self.copier = torch.cuda.Stream(self.device)
        with torch.cuda.stream(self.copier):
            self.slots = [torch.empty(weights[0].shape, dtype=weights[0].dtype,
                                      device=self.device) for _ in range(2)]
        self.ready = {}
        self.used = {}

    def _fetch(self, layer):
        slot = layer % 2
        if slot in self.used:
            self.copier.wait_event(self.used[slot])
        with torch.cuda.stream(self.copier):
            self.slots[slot].copy_(self.host[layer], non_blocking=True)
            self.ready[layer] = self.copier.record_event()

    def _apply(self, layer, x):
        slot = layer % 2
        current = torch.cuda.current_stream(self.device)
        current.wait_event(self.ready.pop(layer))
        self.slots[slot].record_stream(current)
        try:
            return torch.relu(x @ self.slots[slot])
        finally:
            self.used[slot] = current.record_event()

    @torch.no_grad()
    def __call__(self, x):
        if not self.host:
            return x
        self._fetch(0)
        for layer in range(len(self.host)):
            if layer + 1 < len(self.host):
                self._fetch(layer + 1)
            x = self._apply(layer, x)
        return x


def reference(weights, x):
    for w in weights:
        x = torch.relu(x @ w.to(x.device))
    return x


def main():
    torch.manual_seed(0)
    weights = [torch.randn(1024, 1024) / 32 for _ in range(9)]
    stack = StreamedStack(weights)
    x = torch.randn(64, 1024, device=stack.device)
    for _ in range(3):
        y = stack(x)
        torch.testing.assert_close(y, reference(weights, x), rtol=1e-3, atol=1e-3)


if __name__ == "__main__":
    main()
