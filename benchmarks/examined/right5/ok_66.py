from pathlib import Path

import torch


class ChunkedDump:
    """Writes a large device tensor to a file through two pinned chunks."""

    def __init__(self, chunk_bytes: int = 8 << 20):
        self.chunk = chunk_bytes
        self.pinned = [torch.empty(chunk_bytes, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        self.events = [torch.cuda.Event(blocking=True) for _ in range(2)]
        self.stream = torch.cuda.Stream()

    def _issue(self, flat: torch.Tensor, index: int) -> int:
        lane = index & 1
        part = flat[index * self.chunk:(index + 1) * self.chunk]
        with torch.cuda.stream(self.stream):
            self.pinned[lane][:part.numel()].copy_(part, non_blocking=True)
            self.events[lane].record(self.stream)
        return part.numel()

    def write(self, tensor: torch.Tensor, path: Path) -> int:
        flat = tensor.detach().contiguous().view(torch.uint8).view(-1)
        total = -(-flat.numel() // self.chunk)
        self.stream.wait_stream(torch.cuda.current_stream())
        sizes = {0: self._issue(flat, 0)} if total else {}
        with open(path, "wb", buffering=0) as f:
            for i in range(total):
                if i + 1 < total:
                    sizes[i + 1] = self._issue(flat, i + 1)
                lane = i & 1
                self.events[lane].synchronize()
                f.write(memoryview(self.pinned[lane][:sizes.pop(i)].numpy()))
        return flat.numel()


def main(directory: str = "dump"):
    out = Path(directory)
    out.mkdir(exist_ok=True)
    dump = ChunkedDump()
    weights = {f"layer{i}": torch.randn(1024 + 64 * i, 4096, device="cuda") for i in range(4)}
    for step in range(3):
        for name, w in weights.items():
            n = dump.write(w, out / f"{step}-{name}.bin")
            w.mul_(0.99)
            print(step, name, n)


if __name__ == "__main__":
    main()
