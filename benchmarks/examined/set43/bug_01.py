"""Early sending of cached prefix pages from a prefill engine to a decode peer."""
import queue
import socket
import threading
from dataclasses import dataclass, field
from typing import List, Optional

import torch


@dataclass
class PageRequest:
    rid: str
    page_ids: List[int]
    is_last: bool = False
    done: threading.Event = field(default_factory=threading.Event)


class TransferWorker(threading.Thread):
    def __init__(self, kv_pool: torch.Tensor, peer: socket.socket, max_pages: int):
        super().__init__(daemon=True)
        self.kv_pool = kv_pool
        self.peer = peer
        self.device = kv_pool.device
        self.inbox: "queue.Queue[Optional[PageRequest]]" = queue.Queue()
        self.stream = torch.cuda.Stream(device=self.device)
        self.staging = torch.empty(
            (max_pages, kv_pool.shape[1]), dtype=kv_pool.dtype, pin_memory=True
        )

    def run(self):
        torch.cuda.set_device(self.device)
        while True:
            req = self.inbox.get()
            if req is None:
                return
            with torch.cuda.stream(self.stream):
                for row, page in enumerate(req.page_ids):
                    self.staging[row].copy_(self.kv_pool[page], non_blocking=True)
            self.stream.synchronize()
            payload = self.staging[: len(req.page_ids)].numpy().tobytes()
            self.peer.sendall(len(payload).to_bytes(8, "little"))
            self.peer.sendall(payload)
            req.done.set()


class PageSender:
    """One per request; hides the backend from the scheduler."""

    def __init__(self, worker: TransferWorker, rid: str):
        self.worker = worker
        self.rid = rid
        self.pending: List[PageRequest] = []

    def send(self, page_ids, is_last=False, wait_event: Optional[torch.cuda.Event] = None):
        req = PageRequest(self.rid, list(page_ids), is_last)
        self.pending.append(req)
        self.worker.inbox.put(req)

    def poll(self) -> bool:
        self.pending = [r for r in self.pending if not r.done.is_set()]
        return not self.pending


class PrefillScheduler:
    def __init__(self, model: torch.nn.Module, kv_pool: torch.Tensor, worker: TransferWorker):
        self.model = model
        self.kv_pool = kv_pool
        self.worker = worker
        self.forward_stream = torch.cuda.Stream(device=kv_pool.device)
        self.senders = {}

    def run_chunk(self, rid: str, hidden: torch.Tensor, page_ids: List[int], is_last: bool):
        self.forward_stream.wait_stream(torch.cuda.current_stream())
        hidden.record_stream(self.forward_stream)
        with torch.cuda.stream(self.forward_stream):
            kv = self.model(hidden)
            for row, page in enumerate(page_ids):
                self.kv_pool[page].copy_(kv[row])
            written = self.forward_stream.record_event()
        sender = self.senders.setdefault(rid, PageSender(self.worker, rid))
        sender.send(page_ids, is_last=is_last, wait_event=written)

    def finished(self):
        return [rid for rid, s in self.senders.items() if s.poll()]


def main():
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    left, right = socket.socketpair()
    threading.Thread(target=lambda: _drain(right), daemon=True).start()

    kv_pool = torch.zeros((512, 8192), device=device, dtype=torch.float16)
    model = torch.nn.Sequential(
        torch.nn.Linear(4096, 8192), torch.nn.SiLU(), torch.nn.Linear(8192, 8192)
    ).to(device=device, dtype=torch.float16)
    torch.cuda.synchronize()
    worker = TransferWorker(kv_pool, left, max_pages=32)
    worker.start()

    sched = PrefillScheduler(model, kv_pool, worker)
    with torch.no_grad():
        for chunk in range(4):
            hidden = torch.randn((32, 4096), device=device, dtype=torch.float16)
            pages = list(range(chunk * 32, chunk * 32 + 32))
            sched.run_chunk("req-0", hidden, pages, is_last=chunk == 3)
    while not sched.finished():
        pass
    worker.inbox.put(None)
    worker.join()


def _drain(sock):
    while sock.recv(1 << 20):
        pass


if __name__ == "__main__":
    main()
