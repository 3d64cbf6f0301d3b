"""Layer streaming where fresh device copies of the weights live for one forward."""
import torch
import torch.nn as nn


class StreamedWeights:
    def __init__(self, module):
        self.names = [n for n, _ in module.named_parameters()]
        self.host = {n: p.detach().pin_memory() for n, p in module.named_parameters()}
        self.device_copy = None

    def upload(self, stream, consumer, device):
        copies = {}
        with torch.cuda.stream(stream):
            for name in self.names:
                t = self.host[name].to(device, non_blocking=True)
                t.record_stream(consumer)
                copies[name] = t
        self.device_copy = copies
        return stream.record_event()

    def drop(self):
        self.device_copy = None


class StreamedStack:
    def __init__(self, layers, device):
        self.template = layers
        self.device = torch.device(device)
        self.weights = [StreamedWeights(layer) for layer in layers]
        self.stream = torch.cuda.Stream(device)
        self.arrivals = {}

    def _prefetch(self, i, consumer):
        if i < len(self.weights) and i not in self.arrivals:
            self.arrivals[i] = self.weights[i].upload(self.stream, consumer, self.device)

    @torch.no_grad()
    def __call__(self, x):
        consumer = torch.cuda.current_stream(self.device)
        self._prefetch(0, consumer)
        for i, layer in enumerate(self.template):
            self._prefetch(i + 1, consumer)
            consumer.wait_event(self.arrivals.pop(i))
            x = torch.func.functional_call(layer, self.weights[i].device_copy, (x,))
            self.weights[i].drop()
        return x


class Mixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Linear(width, 2 * width)
        self.b = nn.Linear(2 * width, width)

    def forward(self, x):
        return torch.nn.functional.gelu(self.a(x)) @ self.b.weight.T * 0.5 + x + self.b.bias


def generate(stack, latent, steps):
    for t in range(steps):
        noise = stack(latent)
        latent = latent - noise / (steps - t + 1)
    return latent


def main():
    device = "cuda:0"
    stack = StreamedStack([Mixer(1024) for _ in range(16)], device)
    out = generate(stack, torch.randn(2048, 1024, device=device), 6)
    print(out.mean().item(), out.std().item())


if __name__ == "__main__":
    main()
