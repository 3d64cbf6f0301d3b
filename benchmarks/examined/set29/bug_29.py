"""Streams safetensors files to the GPU through one device-resident staging
buffer. Requests are filled one after another, and the tensors of a request
are yielded as views of the staging buffer."""
from typing import Dict, Iterator, List, Tuple

import torch


class TensorMeta:
    def __init__(self, name: str, shape: Tuple[int, ...], dtype: torch.dtype):
        self.name, self.shape, self.dtype = name, shape, dtype
        self.nbytes = dtype.itemsize
        for s in shape:
            self.nbytes *= s


class FilesRequest:
    def __init__(self, metas: List[TensorMeta], payload: torch.Tensor):
        self.metas = metas
        self.payload = payload


class RequestsIterator:
    def __init__(self, requests: List[FilesRequest], device="cuda"):
        self.requests = requests
        size = max(r.payload.numel() for r in requests)
        self.device = torch.device(device)
        self.staging = torch.empty(size, dtype=torch.uint8, device=self.device)
        self.bounce = torch.empty(size, dtype=torch.uint8).pin_memory()
        self.copy_stream = torch.cuda.Stream(self.device)
        self.filled = torch.cuda.Event()

    def next_request(self, request: FilesRequest) -> None:
        n = request.payload.numel()
        self.filled.synchronize()
        self.bounce[:n].copy_(request.payload)
        with torch.cuda.stream(self.copy_stream):
            self.staging[:n].copy_(self.bounce[:n], non_blocking=True)
            self.filled.record(self.copy_stream)
        torch.cuda.current_stream(self.device).wait_event(self.filled)

    def __iter__(self) -> Iterator[Tuple[str, torch.Tensor]]:
        for request in self.requests:
            self.next_request(request)
            offset = 0
            for meta in request.metas:
                raw = self.staging[offset:offset + meta.nbytes]
                yield meta.name, raw.view(meta.dtype).view(meta.shape)
                offset += meta.nbytes


def load_sharded(requests: List[FilesRequest], rank: int, world: int) -> Dict[str, torch.Tensor]:
    """Keeps this rank's row shard of every tensor."""
    shards = {}
    streamer = RequestsIterator(requests)
    torch.cuda.synchronize()
    for name, tensor in streamer:
        rows = tensor.shape[0] // world
        shards[name] = tensor[rank * rows:(rank + 1) * rows].to(torch.bfloat16, copy=True)
    torch.cuda.synchronize()
    return shards


def make_requests(n_requests=8, per_request=4):
    out = []
    for r in range(n_requests):
        metas = [TensorMeta(f"layers.{r}.w{i}", (2048, 2048), torch.float32) for i in range(per_request)]
        data = torch.full((per_request, 2048, 2048), float(r), dtype=torch.float32)
        out.append(FilesRequest(metas, data.view(-1).view(torch.uint8)))
    return out


if __name__ == "__main__":
    weights = load_sharded(make_requests(), rank=0, world=2)
    print({k: float(v.float().mean()) for k, v in list(weights.items())[:6]})
