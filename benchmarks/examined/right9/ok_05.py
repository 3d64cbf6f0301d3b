from contextlib import contextmanager

import torch
import torch.nn.functional as F


def make_host_layers(depth, dim):
    layers = []
    for _ in range(depth):
        layers.append(
            {
                "up": (torch.randn(dim * 4, dim) * 0.02).pin_memory(),
                "down": (torch.randn(dim, dim * 4) * 0.02).pin_memory(),
                "norm": torch.ones(dim).pin_memory(),
            }
        )
    return layers


class WeightStreamer:
    def __init__(self, host_layers, device, slots=2):
        self.host_layers = host_layers
        self.num_slots = slots
        self.copy_stream = torch.cuda.Stream(device)
        template = host_layers[0]
        self.slots = [
            {k: torch.empty_like(v, device=device, pin_memory=False) for k, v in template.items()}
            for _ in range(slots)
        ]
        self.copied = [torch.cuda.Event() for _ in range(slots)]
        self.consumed = [torch.cuda.Event() for _ in range(slots)]
        self.copy_stream.wait_stream(torch.cuda.current_stream(device))

    def fetch(self, index):
        s = index % self.num_slots
        self.copy_stream.wait_event(self.consumed[s])
        with torch.cuda.stream(self.copy_stream):
            for name, src in self.host_layers[index].items():
                self.slots[s][name].copy_(src, non_blocking=True)
            self.copied[s].record()

    def begin(self):
        for i in range(min(self.num_slots, len(self.host_layers))):
            self.fetch(i)

    @contextmanager
    def layer(self, index):
        s = index % self.num_slots
        torch.cuda.current_stream().wait_event(self.copied[s])
        yield self.slots[s]
        self.consumed[s].record()
        upcoming = index + self.num_slots
        if upcoming < len(self.host_layers):
            self.fetch(upcoming)


class StreamedMLP:
    def __init__(self, host_layers, device):
        self.depth = len(host_layers)
        self.streamer = WeightStreamer(host_layers, device)

    @torch.inference_mode()
    def __call__(self, x):
        self.streamer.begin()
        for i in range(self.depth):
            with self.streamer.layer(i) as w:
                h = F.rms_norm(x, (x.shape[-1],), w["norm"])
                x = x + F.silu(h @ w["up"].t()) @ w["down"].t()
        return x


def main():
    device = torch.device("cuda")
    net = StreamedMLP(make_host_layers(32, 1024), device)
    x = torch.randn(16, 1024, device=device)
    for _ in range(5):
        x = net(x)
        x = x / x.norm(dim=-1, keepdim=True)
    print(x.float().mean().item())


if __name__ == "__main__":
    main()
