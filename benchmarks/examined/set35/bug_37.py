"""Checkpoint loading through pinned memory with a transfer stream."""
import argparse
import mmap
from contextlib import AbstractContextManager
from typing import Dict, Iterable, Optional

import torch
import torch.nn as nn
from safetensors import safe_open


class StreamedFile(AbstractContextManager):
    """Drop-in for safe_open(device="cuda"): reads on the host, transfers on its own stream."""

    def __init__(self, path: str, device: str = "cuda:0"):
        self.path = path
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(device=self.device)
        self._file = None

    def _advise(self) -> None:
        with open(self.path, "rb") as f:
            mapped = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
            mapped.madvise(mmap.MADV_SEQUENTIAL)
            mapped.close()

    def __enter__(self) -> "StreamedFile":
        self._advise()
        self._handle = safe_open(self.path, framework="pt", device="cpu")
        self._file = self._handle.__enter__()
        return self

    def __exit__(self, exc_type, exc, tb) -> Optional[bool]:
        self.stream.synchronize()
        self._file = None
        return self._handle.__exit__(exc_type, exc, tb)

    def keys(self) -> Iterable[str]:
        return self._file.keys()

    def get_tensor(self, name: str) -> torch.Tensor:
        pinned = self._file.get_tensor(name).pin_memory()
        with torch.cuda.stream(self.stream):
            return pinned.to(self.device, non_blocking=True)


def load_file(path: str, device: str = "cuda:0") -> Dict[str, torch.Tensor]:
    out: Dict[str, torch.Tensor] = {}
    with StreamedFile(path, device) as f:
        for name in f.keys():
            out[name] = f.get_tensor(name)
    return out


@torch.no_grad()
def load_into(model: nn.Module, path: str, dtype: torch.dtype = torch.bfloat16) -> int:
    """Fill an existing module; tensors in the file may be stored in another dtype."""
    params = dict(model.named_parameters())
    params.update(model.named_buffers())
    loaded = 0
    with StreamedFile(path) as f:
        for name in f.keys():
            target = params.get(name)
            if target is None:
                continue
            target.copy_(f.get_tensor(name).to(dtype))
            loaded += 1
    return loaded


def build(width: int, layers: int) -> nn.Module:
    blocks = [nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
              for _ in range(layers)]
    return nn.Sequential(*blocks).to("cuda", torch.bfloat16)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint")
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=24)
    args = parser.parse_args()
    model = build(args.width, args.layers).eval()
    count = load_into(model, args.checkpoint)
    with torch.inference_mode():
        x = torch.randn(8, args.width, device="cuda", dtype=torch.bfloat16)
        print(count, model(x).float().abs().mean().item())


if __name__ == "__main__":
    main()
