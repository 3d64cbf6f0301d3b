import argparse
import json
import mmap
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Iterator

import torch
from torch import nn

DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class FileStreamer:
    """Reads the tensors of a checkpoint one after the other through one CPU buffer."""

    def __init__(self, path: str):
        self.path = path
        with open(path, "rb") as f:
            size = int.from_bytes(f.read(8), "little")
            header = json.loads(f.read(size))
        header.pop("__metadata__", None)
        self.base = 8 + size
        self.entries = sorted(header.items(), key=lambda kv: kv[1]["data_offsets"][0])
        largest = max(e["data_offsets"][1] - e["data_offsets"][0] for _, e in self.entries)
        self.buffer = torch.empty(largest, dtype=torch.uint8, pin_memory=True)

    def get_tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        fd = os.open(self.path, os.O_RDONLY)
        try:
            with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as mapped:
                for name, entry in self.entries:
                    begin, end = entry["data_offsets"]
                    raw = memoryview(mapped)[self.base + begin:self.base + end]
                    view = self.buffer[:end - begin]
                    view.numpy()[:] = raw
                    raw.release()
                    yield name, view.view(DTYPES[entry["dtype"]]).view(entry["shape"])
        finally:
            os.close(fd)


def default_weight_loader(param: torch.Tensor, loaded: torch.Tensor):
    param.data.copy_(loaded, non_blocking=True)


def shard_weight_loader(rank: int, world: int):
    def load(param: torch.Tensor, loaded: torch.Tensor):
        rows = param.shape[0]
        default_weight_loader(param, loaded[rank * rows:(rank + 1) * rows])

    del world
    return load


class ShardedMLP(nn.Module):
    def __init__(self, dim: int, hidden: int, rank: int, world: int):
        super().__init__()
        self.up_proj = nn.Linear(dim, hidden // world, bias=False)
        self.down_proj = nn.Linear(hidden // world, dim, bias=False)
        self.up_proj.weight.weight_loader = shard_weight_loader(rank, world)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.up_proj(x)))


class Model(nn.Module):
    def __init__(self, layers, dim, hidden, rank=0, world=1):
        super().__init__()
        self.layers = nn.ModuleList(ShardedMLP(dim, hidden, rank, world) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x

    def load_weights(self, weights: Iterator[tuple[str, torch.Tensor]], workers: int = 4):
        params = dict(self.named_parameters())
        futures: list[Future] = []
        with ThreadPoolExecutor(max_workers=workers) as executor:
            for name, loaded in weights:
                param = params[name]
                loader = getattr(param, "weight_loader", default_weight_loader)
                futures.append(executor.submit(loader, param, loaded))
            for future in futures:
                future.result()
        torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--dim", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=14336)
    args = parser.parse_args()

    with torch.device("cuda"):
        model = Model(args.layers, args.dim, args.hidden).to(torch.bfloat16)
    model.load_weights(FileStreamer(args.checkpoint).get_tensors())
    with torch.no_grad():
        out = model(torch.ones(1, args.dim, device="cuda", dtype=torch.bfloat16))
    print(out.float().norm().item())


if __name__ == "__main__":
    main()
