"""Prefetch of layer weights onto the GPU; tensors live in the copy stream's allocator pool."""
import torch
from torch import nn


class LayerPrefetcher:
    def __init__(self, host_layers, device, ahead=1):
        self.host = [{k: v.pin_memory() for k, v in layer.items()} for layer in host_layers]
        self.device = torch.device(device)
        self.copy_stream = torch.cuda.Stream(self.device)
        self.ahead = ahead
        self.ready = {}

    def fetch(self, index):
        if index >= len(self.host) or index in self.ready:
            return
        self.copy_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.copy_stream):
            tensors = {k: v.to(self.device, non_blocking=True) for k, v in self.host[index].items()}
            done = torch.cuda.Event()
            done.record()
        self.ready[index] = (tensors, done)

    def take(self, index):
        self.fetch(index)
        tensors, done = self.ready.pop(index)
        torch.cuda.current_stream(self.device).wait_event(done)
        return tensors


class StreamedMLP:
    """Runs a deep stack with the weights of at most ``ahead + 1`` layers on the device."""

    def __init__(self, prefetcher, depth):
        self.prefetcher = prefetcher
        self.depth = depth
        self.stream = torch.cuda.Stream(prefetcher.device)

    @torch.inference_mode()
    def __call__(self, x):
        caller = torch.cuda.current_stream(self.prefetcher.device)
        self.stream.wait_stream(caller)
        x.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            out = self._run(x)
        caller.wait_stream(self.stream)
        out.record_stream(caller)
        return out

    def _run(self, x):
        for index in range(self.depth):
            weights = self.prefetcher.take(index)
            hidden = nn.functional.gelu(x @ weights["up"])
            x = x + hidden @ weights["down"]
            del weights, hidden
            for step in range(1, self.prefetcher.ahead + 1):
                self.prefetcher.fetch(index + step)
        return x


def random_layers(depth, width):
    gen = torch.Generator().manual_seed(0)
    for _ in range(depth):
        yield {"up": torch.randn(width, 4 * width, generator=gen) / width ** 0.5,
               "down": torch.randn(4 * width, width, generator=gen) / width}


def main(depth=24, width=1024, batches=8, device="cuda"):
    model = StreamedMLP(LayerPrefetcher(list(random_layers(depth, width)), device), depth)
    outs = [model(torch.randn(64, width, device=device)) for _ in range(batches)]
    return torch.stack(outs).mean(dim=-1).cpu()


if __name__ == "__main__":
    print(main().shape)
