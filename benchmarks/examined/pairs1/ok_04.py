"""Two resident slots through which a deep stack of CPU layers is streamed."""
import torch


class LayerStreamer:
    def __init__(self, host_weights, device="cuda"):
        self.host = [w.pin_memory() for w in host_weights]
        self.slots = [torch.empty_like(host_weights[0], device=device) for _ in range(2)]
        self.copy_stream = torch.cuda.Stream()
        self.loaded = [torch.cuda.Event() for _ in range(2)]
        self.consumed = [torch.cuda.Event() for _ in range(2)]

    def _load(self, index):
        slot = index % 2
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(self.consumed[slot])
            self.slots[slot].copy_(self.host[index], non_blocking=True)
            self.loaded[slot].record()

    def forward(self, x):
        compute = torch.cuda.current_stream()
        for event in self.consumed:
            event.record(compute)
        self._load(0)
        for i in range(len(self.host)):
            if i + 1 < len(self.host):
                self._load(i + 1)
            slot = i % 2
            compute.wait_event(self.loaded[slot])
            x = torch.nn.functional.silu(x @ self.slots[slot])
            self.consumed[slot].record(compute)
        return x


def main():
    weights = [torch.randn(2048, 2048) / 45 for _ in range(24)]
    streamer = LayerStreamer(weights)
    x = torch.randn(8, 2048, device="cuda")
    for _ in range(16):
        x = streamer.forward(x)
    print(x.float().norm().item())


if __name__ == "__main__":
    main()
