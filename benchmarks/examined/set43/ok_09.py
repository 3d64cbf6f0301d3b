import queue
import threading
from typing import Dict, NamedTuple, Optional

import torch
import torch.nn as nn


class Job(NamedTuple):
    key: str
    tensors: Dict[str, torch.Tensor]
    produced: torch.cuda.Event


class ObjectStore:
    def __init__(self):
        self.blobs: Dict[str, bytes] = {}

    def batch_put(self, key: str, payload: bytes):
        self.blobs[key] = payload


class AsyncPutter:
    """One background thread; errors surface at the next put() or at drain()."""

    def __init__(self, store: ObjectStore, slab_numel: int, device: torch.device):
        self.store = store
        self.device = device
        self.slab = torch.empty(slab_numel, dtype=torch.float16, pin_memory=True)
        self.jobs: "queue.Queue[Optional[Job]]" = queue.Queue(maxsize=4)
        self.error: Optional[BaseException] = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def put(self, key: str, tensors: Dict[str, torch.Tensor]):
        self.check_last_error()
        produced = torch.cuda.current_stream(self.device).record_event()
        self.jobs.put(Job(key, tensors, produced))

    def check_last_error(self):
        if self.error is not None:
            raise RuntimeError("async put failed") from self.error

    def _run(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(device=self.device)
        while True:
            job = self.jobs.get()
            if job is None:
                return
            try:
                self._transfer(job, stream)
            except Exception as exc:
                self.error = exc

    def _transfer(self, job: Job, stream: torch.cuda.Stream):
        offset = 0
        job.produced.wait(stream)
        with torch.cuda.stream(stream):
            for tensor in job.tensors.values():
                view = self.slab[offset:offset + tensor.numel()]
                view.copy_(tensor.reshape(-1), non_blocking=True)
                offset += tensor.numel()
        stream.synchronize()
        self.store.batch_put(job.key, self.slab[:offset].numpy().tobytes())

    def drain(self):
        self.jobs.put(None)
        self.thread.join()
        self.check_last_error()


@torch.inference_mode()
def main():
    device = torch.device("cuda", 0)
    width = 2048
    net = nn.Sequential(*[nn.Linear(width, width) for _ in range(6)]).half().to(device)
    store = ObjectStore()
    putter = AsyncPutter(store, slab_numel=4 * 512 * width, device=device)
    for i in range(12):
        x = torch.randn((512, width), device=device).half()
        mid = net[:3](x)
        last = net[3:](mid)
        putter.put(f"sample{i}", {"mid": mid, "last": last})
    putter.drain()
    print(len(store.blobs), sum(map(len, store.blobs.values())))


if __name__ == "__main__":
    main()
