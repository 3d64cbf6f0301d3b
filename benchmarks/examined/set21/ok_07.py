import queue
import threading
from dataclasses import dataclass
from typing import List, Optional

import torch


@dataclass
class ChunkedTransTask:
    request_id: int
    kv_indexes: torch.Tensor
    page_index: Optional[int] = None
    digest: float = 0.0


class KVMover:
    """Moves KV pages to pinned transfer pages and hands them to a sender."""

    def __init__(self, kv_buffer: torch.Tensor, page_tokens: int, num_pages: int):
        self.kv_buffer = kv_buffer
        shape = (kv_buffer.shape[0], page_tokens) + tuple(kv_buffer.shape[2:])
        self.pages = [torch.empty(shape, dtype=kv_buffer.dtype, pin_memory=True) for _ in range(num_pages)]
        self.free_pages: "queue.Queue[int]" = queue.Queue()
        for i in range(num_pages):
            self.free_pages.put(i)
        self.copy_stream = torch.cuda.Stream(kv_buffer.device)
        self.success_queue: "queue.Queue" = queue.Queue()
        self.sent: List[ChunkedTransTask] = []
        self.sender = threading.Thread(target=self._send_loop, daemon=True)
        self.sender.start()

    def copy_out(self, task: ChunkedTransTask, computed: torch.cuda.Event) -> None:
        task.page_index = self.free_pages.get()
        n = task.kv_indexes.numel()
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(computed)
            gathered = self.kv_buffer.index_select(1, task.kv_indexes)
            self.pages[task.page_index][:, :n].copy_(gathered, non_blocking=True)
            copy_end = torch.cuda.Event()
            copy_end.record()
        task.kv_indexes.record_stream(self.copy_stream)
        self.success_queue.put((copy_end, task))

    def _send_loop(self) -> None:
        while True:
            item = self.success_queue.get()
            if item is None:
                return
            copy_end, task = item
            copy_end.synchronize()
            n = task.kv_indexes.numel()
            task.digest = float(self.pages[task.page_index][:, :n].float().sum())
            self.sent.append(task)
            self.free_pages.put(task.page_index)

    def close(self) -> None:
        self.success_queue.put(None)
        self.sender.join()


def prefill(num_requests: int = 64, layers: int = 16, slots: int = 65536, page_tokens: int = 1024):
    device = torch.device("cuda")
    kv = torch.zeros(layers, slots, 8, 64, dtype=torch.float16, device=device)
    mover = KVMover(kv, page_tokens, num_pages=4)
    for rid in range(num_requests):
        begin = rid * page_tokens
        indexes = torch.arange(begin, begin + page_tokens, device=device)
        fresh = torch.randn(layers, page_tokens, 8, 64, dtype=torch.float16, device=device)
        kv.index_copy_(1, indexes, fresh)
        computed = torch.cuda.Event()
        computed.record()
        mover.copy_out(ChunkedTransTask(rid, indexes), computed)
    mover.close()
    return [(t.request_id, t.digest) for t in mover.sent]
