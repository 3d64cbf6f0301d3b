"""Background device loader: one thread tokenizes and uploads, the trainer consumes."""
import queue
import threading
from typing import Callable, Iterable, Iterator, List, Tuple

import torch

_END = object()


class DeviceLoader:
    def __init__(self, source: Iterable[str], encode: Callable[[str], List[int]], device: torch.device,
                 batch: int = 32, depth: int = 4):
        self.source = source
        self.encode = encode
        self.device = device
        self.batch = batch
        self.depth = depth

    def _collate(self, rows: List[List[int]]) -> Tuple[torch.Tensor, torch.Tensor]:
        longest = max(len(r) for r in rows)
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        lengths = torch.tensor([len(r) for r in rows])
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
        return ids.pin_memory(), lengths.pin_memory()

    def _upload(self, rows, stream):
        ids, lengths = self._collate(rows)
        with torch.cuda.stream(stream):
            ids = ids.to(self.device, non_blocking=True)
            lengths = lengths.to(self.device, non_blocking=True)
            mask = torch.arange(ids.shape[1], device=self.device)[None, :] < lengths[:, None]
            ready = torch.cuda.Event()
            ready.record(stream)
        return (ids, mask), ready

    def _work(self, out: "queue.Queue", stop: threading.Event) -> None:
        def put(item) -> bool:
            while not stop.is_set():
                try:
                    out.put(item, timeout=0.1)
                    return True
                except queue.Full:
                    continue
            return False

        try:
            torch.cuda.set_device(self.device)
            stream = torch.cuda.Stream(device=self.device)
            rows: List[List[int]] = []
            for text in self.source:
                rows.append(self.encode(text) or [0])
                if len(rows) == self.batch:
                    if not put(self._upload(rows, stream)):
                        return
                    rows = []
            if rows:
                put(self._upload(rows, stream))
        except BaseException as exc:
            put(exc)
            return
        put(_END)

    def __iter__(self) -> Iterator[Tuple[torch.Tensor, torch.Tensor]]:
        out: "queue.Queue" = queue.Queue(self.depth)
        stop = threading.Event()
        worker = threading.Thread(target=self._work, args=(out, stop), daemon=True)
        worker.start()
        try:
            while True:
                item = out.get()
                if item is _END:
                    return
                if isinstance(item, BaseException):
                    raise item
                tensors, ready = item
                current = torch.cuda.current_stream(self.device)
                current.wait_event(ready)
                for t in tensors:
                    t.record_stream(current)
                yield tensors
        finally:
            stop.set()
            worker.join()


def mean_pool(loader: DeviceLoader, table: torch.Tensor) -> torch.Tensor:
    pooled = []
    for ids, mask in loader:
        weights = mask.unsqueeze(-1).to(table.dtype)
        pooled.append((table[ids] * weights).sum(1) / weights.sum(1).clamp_min(1))
    return torch.cat(pooled).cpu() if pooled else torch.empty(0, table.shape[1])
