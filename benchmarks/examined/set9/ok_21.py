import queue
import threading
from dataclasses import dataclass

import torch


def _recursive_pin(obj):
    if isinstance(obj, torch.Tensor):
        return obj.pin_memory()
    elif isinstance(obj, dict):
        return {k: _recursive_pin(v) for k, v in obj.items()}
    elif isinstance(obj, (list, tuple)):
        return type(obj)(_recursive_pin(v) for v in obj)
    return obj


def _recursive_to_device(obj, device, non_blocking=False):
    if isinstance(obj, torch.Tensor):
        return obj.to(device=device, non_blocking=non_blocking)
    elif isinstance(obj, dict):
        return {k: _recursive_to_device(v, device, non_blocking) for k, v in obj.items()}
    elif isinstance(obj, (list, tuple)):
        return type(obj)(_recursive_to_device(v, device, non_blocking) for v in obj)
    return obj


def _recursive_record_stream(obj, stream):
    if isinstance(obj, torch.Tensor):
        obj.record_stream(stream)
    elif isinstance(obj, dict):
        for value in obj.values():
            _recursive_record_stream(value, stream)
    elif isinstance(obj, (list, tuple)):
        for value in obj:
            _recursive_record_stream(value, stream)


@dataclass
class _CudaPrefetchedItem:
    item: object
    ready_event: object


class FixedNumBatchesDataset(torch.utils.data.Dataset):
    def __init__(self, dataset, num_batches, device, queue_size_limit=10):
        super().__init__()
        self.dataset = dataset
        self.iter = None
        self.num_batches = num_batches
        self.device = torch.device(device)
        self._prefetch_device = None
        self._prefetch_queue = queue.Queue(maxsize=queue_size_limit)
        self._prefetch_thread = None
        self._stop_prefetching = threading.Event()
        self._lock = threading.Lock()

    def _safe_put(self, item):
        while not self._stop_prefetching.is_set():
            try:
                self._prefetch_queue.put(item, timeout=1.0)
                break
            except queue.Full:
                continue

    def _prefetch_worker(self):
        try:
            torch.cuda.set_device(self._prefetch_device)
            prefetch_stream = torch.cuda.Stream(device=self._prefetch_device)
            while not self._stop_prefetching.is_set():
                try:
                    item = _recursive_pin(next(self.iter))
                    with torch.cuda.stream(prefetch_stream):
                        item = _recursive_to_device(item, self._prefetch_device, non_blocking=True)
                        ready_event = torch.cuda.Event()
                        ready_event.record(prefetch_stream)
                    self._safe_put(_CudaPrefetchedItem(item=item, ready_event=ready_event))
                except StopIteration:
                    self._safe_put(None)
                    break
        except Exception as e:
            self._safe_put(e)

    def _start_prefetching(self):
        with self._lock:
            if self._prefetch_thread is None:
                index = self.device.index if self.device.index is not None else torch.cuda.current_device()
                self._prefetch_device = torch.device("cuda", index)
                self.iter = iter(self.dataset)
                self._prefetch_thread = threading.Thread(target=self._prefetch_worker, daemon=True)
                self._prefetch_thread.start()

    def __len__(self):
        return self.num_batches

    def __getitem__(self, idx):
        self._start_prefetching()
        item = self._prefetch_queue.get(timeout=300.0)
        if item is None:
            raise StopIteration("End of dataset reached")
        elif isinstance(item, Exception):
            raise item
        current_stream = torch.cuda.current_stream(device=self._prefetch_device)
        current_stream.wait_event(item.ready_event)
        _recursive_record_stream(item.item, current_stream)
        return item.item
