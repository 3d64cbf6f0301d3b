"""Layer-by-layer execution of a decoder whose weights live in host memory."""
import torch
import torch.nn.functional as F


class LayerStreamer:
    """Keeps `depth` device-side copies of a layer's weights and rotates through them."""

    def __init__(self, layers, device="cuda", depth=2):
        self.host = [{k: v.pin_memory() for k, v in layer.items()} for layer in layers]
        self.depth = depth
        self.slots = [
            {k: torch.empty(v.shape, dtype=v.dtype, device=device) for k, v in layers[0].items()}
            for _ in range(depth)
        ]
        self.stream = torch.cuda.Stream(device)
        self.loaded = [torch.cuda.Event() for _ in range(depth)]
        self.idle = [torch.cuda.Event() for _ in range(depth)]
        for ev in self.idle:
            ev.record()

    def __len__(self):
        return len(self.host)

    def fetch(self, index):
        slot = index % self.depth
        self.stream.wait_event(self.idle[slot])
        with torch.cuda.stream(self.stream):
            for name, src in self.host[index].items():
                self.slots[slot][name].copy_(src, non_blocking=True)
            self.loaded[slot].record()

    def acquire(self, index):
        slot = index % self.depth
        torch.cuda.current_stream().wait_event(self.loaded[slot])
        return self.slots[slot]

    def release(self, index):
        self.idle[index % self.depth].record()


@torch.inference_mode()
def forward(streamer, hidden):
    streamer.fetch(0)
    for i in range(len(streamer)):
        if i + 1 < len(streamer):
            streamer.fetch(i + 1)
        w = streamer.acquire(i)
        up = F.silu(hidden @ w["gate"]) * (hidden @ w["up"])
        hidden = hidden + up @ w["down"]
        streamer.release(i)
    return hidden


def main():
    d, h = 1024, 4096
    layers = [
        {"gate": torch.randn(d, h), "up": torch.randn(d, h), "down": torch.randn(h, d)}
        for _ in range(7)
    ]
    streamer = LayerStreamer(layers)
    x = torch.randn(8, d, device="cuda")
    for _ in range(4):
        x = forward(streamer, x)
        x = F.layer_norm(x, (d,))
    print(x.float().norm().item())


if __name__ == "__main__":
    main()
