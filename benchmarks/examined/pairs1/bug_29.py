"""Publishes computed prefixes to a cache server from a worker thread."""
import queue
import socket
import threading
from dataclasses import dataclass

import torch


@dataclass
class Chunk:
    host: torch.Tensor
    event: torch.cuda.Event


class PrefixPublisher:
    def __init__(self, conn, pages, depth=6):
        self.conn = conn
        self.pages = pages
        self.d2h = torch.cuda.Stream()
        self.idle = queue.Queue()
        self.work = queue.Queue()
        for _ in range(depth):
            self.idle.put(Chunk(torch.empty(pages.shape[1:], pin_memory=True), torch.cuda.Event()))
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def publish(self, page):
        chunk = self.idle.get()
        compute = torch.cuda.current_stream()
        self.d2h.wait_stream(compute)
        with torch.cuda.stream(self.d2h):
            chunk.host.copy_(self.pages[page], non_blocking=True)
        chunk.event.record(compute)
        self.work.put(chunk)

    def before_overwrite(self):
        torch.cuda.current_stream().wait_stream(self.d2h)

    def _loop(self):
        while True:
            chunk = self.work.get()
            if chunk is None:
                break
            chunk.event.synchronize()
            self.conn.sendall(chunk.host.numpy().tobytes())
            self.idle.put(chunk)

    def close(self):
        self.work.put(None)
        self.thread.join()


def drain(conn):
    while conn.recv(1 << 20):
        pass


def main(prefixes=200):
    left, right = socket.socketpair()
    threading.Thread(target=drain, args=(right,), daemon=True).start()
    pages = torch.zeros(16, 64, 2048, device="cuda")
    w = torch.randn(2048, 2048, device="cuda") / 45
    publisher = PrefixPublisher(left, pages)
    for i in range(prefixes):
        x = torch.randn(64, 2048, device="cuda")
        publisher.before_overwrite()
        pages[i % 16].copy_(torch.tanh(x @ w))
        publisher.publish(i % 16)
    publisher.close()
    left.close()


if __name__ == "__main__":
    main()
