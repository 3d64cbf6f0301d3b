import torch
from torch import nn


class AdaptiveRunner:
    """Evaluates large inputs in chunks and halves the chunk when memory is short."""

    def __init__(self, module, chunk=1 << 20, min_chunk=1 << 10):
        self.module = module
        self.chunk = chunk
        self.min_chunk = min_chunk
        self.stream = torch.cuda.Stream()

    def _attempt(self, x):
        current = torch.cuda.current_stream()
        self.stream.wait_stream(current)
        parts = []
        try:
            with torch.cuda.stream(self.stream):
                for piece in x.split(self.chunk):
                    parts.append(self.module(piece))
        except torch.cuda.OutOfMemoryError:
            self.stream.synchronize()
            parts.clear()
            torch.cuda.empty_cache()
            raise
        current.wait_stream(self.stream)
        for part in parts:
            part.record_stream(current)
        return torch.cat(parts)

    @torch.inference_mode()
    def __call__(self, x):
        while True:
            try:
                return self._attempt(x)
            except torch.cuda.OutOfMemoryError:
                if self.chunk <= self.min_chunk:
                    raise
                self.chunk //= 2


class Positional(nn.Module):
    def __init__(self, bands=10):
        super().__init__()
        self.register_buffer("freqs", 2.0 ** torch.arange(bands))

    def forward(self, p):
        angles = p.unsqueeze(-1) * self.freqs
        return torch.cat([p, angles.sin().flatten(1), angles.cos().flatten(1)], -1)


def main():
    field = nn.Sequential(Positional(), nn.Linear(63, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4)).cuda()
    runner = AdaptiveRunner(field)
    for side in (64, 128, 256):
        axis = torch.linspace(-1, 1, side, device="cuda")
        grid = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1).view(-1, 3)
        density = runner(grid)[:, 3].relu()
        print(side, runner.chunk, density.mean().item())


if __name__ == "__main__":
    main()
