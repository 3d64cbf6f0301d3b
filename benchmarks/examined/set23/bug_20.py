"""Safetensors streaming loader: one reusable host buffer per streamer."""
import json
import struct

import torch
from torch import nn

_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class SafetensorsStreamer:
    """Reads a file in requests that fit the memory limit and yields tensor views."""

    def __init__(self, memory_limit=1 << 30):
        self.buffer = torch.empty(memory_limit, dtype=torch.uint8, pin_memory=True)
        self.files = []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.files.clear()

    def stream_files(self, paths):
        self.files.extend(paths)

    def _requests(self, header):
        """Group tensors, in file order, into spans that fit into the buffer."""
        entries = sorted(
            ((n, m) for n, m in header.items() if n != "__metadata__"),
            key=lambda item: item[1]["data_offsets"][0],
        )
        group, start = [], None
        for name, meta in entries:
            begin, end = meta["data_offsets"]
            if group and end - start > self.buffer.numel():
                yield start, group
                group, start = [], None
            if start is None:
                start = begin
            group.append((name, meta))
        if group:
            yield start, group

    def get_tensors(self):
        view = memoryview(self.buffer.numpy())
        for path in self.files:
            with open(path, "rb") as f:
                header_size = struct.unpack("<Q", f.read(8))[0]
                header = json.loads(f.read(header_size))
                base = 8 + header_size
                for start, group in self._requests(header):
                    stop = group[-1][1]["data_offsets"][1]
                    f.seek(base + start)
                    f.readinto(view[:stop - start])
                    for name, meta in group:
                        begin, end = meta["data_offsets"]
                        raw = self.buffer[begin - start:end - start]
                        yield name, raw.view(_DTYPES[meta["dtype"]]).view(meta["shape"])


def runai_safetensors_weights_iterator(paths, memory_limit):
    with SafetensorsStreamer(memory_limit) as streamer:
        streamer.stream_files(paths)
        for name, tensor in streamer.get_tensors():
            yield name, tensor


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv_proj = nn.Linear(dim, 3 * dim, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim, bias=False), nn.GELU(), nn.Linear(4 * dim, dim, bias=False))


class Model(nn.Module):
    STACKED = {"q_proj": 0, "k_proj": 1, "v_proj": 2}

    def __init__(self, dim, depth):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))

    def load_weights(self, weights):
        params = dict(self.named_parameters())
        loaded = set()
        for name, tensor in weights:
            for part, shard_id in self.STACKED.items():
                if part in name:
                    target = params[name.replace(part, "qkv_proj")]
                    rows = target.shape[0] // 3
                    target.data[shard_id * rows:(shard_id + 1) * rows].copy_(tensor, non_blocking=True)
                    loaded.add(name)
                    break
            else:
                if name in params:
                    params[name].data.copy_(tensor, non_blocking=True)
                    loaded.add(name)
        return loaded


def load_model(paths, dim=4096, depth=32, memory_limit=512 << 20):
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = Model(dim, depth)
        torch.set_default_dtype(torch.float32)
    loaded = model.load_weights(runai_safetensors_weights_iterator(paths, memory_limit))
    torch.cuda.synchronize()
    return model, loaded


if __name__ == "__main__":
    import sys

    _, names = load_model(sys.argv[1:])
    print(len(names))
