"""Stream safetensors files through one page-locked buffer and load parameters in the background."""
import json
import struct
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I8": torch.int8}


class SafetensorsStreamer:
    """Yields (name, tensor) pairs; tensors are views of the streamer's buffer."""

    def __init__(self, capacity):
        self.buffer = torch.empty(capacity, dtype=torch.uint8, pin_memory=True)
        self._window = memoryview(self.buffer.numpy())

    @staticmethod
    def _header(f):
        (size,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(size))
        header.pop("__metadata__", None)
        return 8 + size, sorted(header.items(), key=lambda kv: kv[1]["data_offsets"][0])

    def get_tensors(self, path):
        with open(path, "rb", buffering=0) as f:
            base, entries = self._header(f)
            i = 0
            while i < len(entries):
                start = entries[i][1]["data_offsets"][0]
                j = i
                while j < len(entries) and entries[j][1]["data_offsets"][1] - start <= self.buffer.numel():
                    j += 1
                end = entries[j - 1][1]["data_offsets"][1]
                f.seek(base + start)
                f.readinto(self._window[: end - start])
                for name, info in entries[i:j]:
                    lo, hi = (o - start for o in info["data_offsets"])
                    raw = self.buffer[lo:hi]
                    yield name, raw.view(_DTYPES[info["dtype"]]).view(info["shape"])
                i = j


def should_async_load(tensor):
    return tensor.device.type == "cpu"


class ParameterLoader:
    def __init__(self, model, device, workers=4):
        self.params = dict(model.named_parameters())
        self.device = device
        self.load_stream = torch.cuda.Stream(device=device)
        self.load_stream.wait_stream(torch.cuda.current_stream(device))
        self.executor = ThreadPoolExecutor(max_workers=workers)

    def _load_one(self, name, loaded):
        param = self.params[name]
        with torch.no_grad(), torch.cuda.stream(self.load_stream):
            param.data.copy_(loaded, non_blocking=True)

    def load(self, weights):
        futures = []
        for name, loaded in weights:
            if name not in self.params:
                continue
            if should_async_load(loaded):
                futures.append(self.executor.submit(self._load_one, name, loaded))
            else:
                self._load_one(name, loaded)
        for future in futures:
            future.result()
        torch.cuda.current_stream(self.device).wait_stream(self.load_stream)


def iterate_files(paths, capacity):
    streamer = SafetensorsStreamer(capacity)
    for path in paths:
        yield from streamer.get_tensors(path)


def load_model(model: nn.Module, paths, device, capacity=512 << 20):
    model = model.to(device)
    loader = ParameterLoader(model, device)
    loader.load(iterate_files(paths, capacity))
    torch.cuda.synchronize(device)
    return model.eval()
