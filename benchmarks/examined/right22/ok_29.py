import numpy as np
import torch


class ShardFiles:
    """Stands for files on disk: gives numpy rows."""

    def __init__(self, shards, rows, width):
        self.shards = shards
        self.rows = rows
        self.width = width

    def __iter__(self):
        for n in range(self.shards):
            yield np.full((self.rows, self.width), n, dtype=np.float32)


class ShardLoader:
    def __init__(self, files, device, stream=None):
        self.files = files
        self.device = device
        self.stream = stream
        pin = device == "cuda"
        self.bounce = torch.empty(files.rows, files.width, pin_memory=pin)
        self.target = torch.empty(files.rows, files.width, device=device)

    def _copy(self):
        if self.stream is None:
            self.target.copy_(self.bounce)
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.target.copy_(self.bounce, non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.stream)

    def _settle(self):
        if self.stream is not None:
            self.stream.synchronize()

    def __iter__(self):
        for rows in self.files:
            self._settle()
            self.bounce.numpy()[...] = rows
            self._copy()
            yield self.target


class Windows:
    def __init__(self, inner, size):
        self.inner = inner
        self.size = size

    def __iter__(self):
        for target in self.inner:
            for part in target.split(self.size):
                yield part


def accumulate(loader, device):
    acc = torch.zeros(loader.inner.files.width, device=device)
    for part in loader:
        acc += part.mean(0)
        part.zero_()
    return acc


def main():
    for device in ("cpu", "cuda"):
        if device == "cuda" and not torch.cuda.is_available():
            continue
        stream = torch.cuda.Stream() if device == "cuda" else None
        loader = ShardLoader(ShardFiles(10, 4096, 64), device, stream)
        loader = Windows(loader, 1024)
        print(device, accumulate(loader, device).sum().item())


if __name__ == "__main__":
    main()
