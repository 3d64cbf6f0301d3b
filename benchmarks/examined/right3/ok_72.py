"""Checkpoint shards uploaded by a thread pool."""
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

import torch
from torch import nn


class ShardUploader:
    def __init__(self, device: torch.device, dtype: torch.dtype, workers: int = 4):
        self.device, self.dtype, self.workers = device, dtype, workers
        self._local = threading.local()

    def _stream(self) -> torch.cuda.Stream:
        stream = getattr(self._local, "stream", None)
        if stream is None:
            torch.cuda.set_device(self.device)
            stream = self._local.stream = torch.cuda.Stream(self.device)
        return stream

    def _upload(self, name: str, host: torch.Tensor):
        stream = self._stream()
        with torch.cuda.stream(stream):
            raw = host.pin_memory().to(self.device, non_blocking=True)
            value = raw.to(self.dtype)
            return name, value, stream.record_event()

    def load_into(self, model: nn.Module, shards: dict[str, torch.Tensor]) -> list[str]:
        params = dict(model.named_parameters())
        order = []
        with ThreadPoolExecutor(self.workers) as pool, torch.no_grad():
            futures = [pool.submit(self._upload, name, host) for name, host in shards.items()]
            for future in as_completed(futures):
                name, value, ready = future.result()
                current = torch.cuda.current_stream(self.device)
                current.wait_event(ready)
                value.record_stream(current)
                params[name].copy_(value)
                order.append(name)
        return order


def main():
    device = torch.device("cuda", 0)
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).to(device, torch.bfloat16)
    shards = {n: torch.randn(p.shape, dtype=torch.float32) * 0.02 for n, p in model.named_parameters()}
    uploader = ShardUploader(device, torch.bfloat16)
    order = uploader.load_into(model, shards)
    with torch.no_grad():
        y = model(torch.randn(4, 1024, dtype=torch.bfloat16, device=device))
    print(len(order), y.float().norm().item())


if __name__ == "__main__":
    main()
