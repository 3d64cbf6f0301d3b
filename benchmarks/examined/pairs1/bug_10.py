"""Pulls prefilled pages from a remote worker into the local page table."""
import socket
import threading

import torch

PAGE_SHAPE = (2, 32, 4, 128)
PAGE_BYTES = 2 * 32 * 4 * 128 * 2


class PagePuller:
    def __init__(self, conn, pages):
        self.conn = conn
        self.pages = pages
        self.bounce = [torch.empty(PAGE_BYTES, dtype=torch.uint8).pin_memory() for _ in range(3)]
        self.uploaded = [torch.cuda.Event() for _ in self.bounce]
        self.h2d = torch.cuda.Stream()

    def _read(self, target):
        mv = memoryview(target.numpy())
        while len(mv):
            mv = mv[self.conn.recv_into(mv):]

    def pull(self, page_ids):
        main = torch.cuda.current_stream()
        self.h2d.wait_stream(main)
        for n, page in enumerate(page_ids):
            k = n % len(self.bounce)
            self._read(self.bounce[k])
            self.uploaded[k].synchronize()
            with torch.cuda.stream(self.h2d):
                typed = self.bounce[k].view(torch.bfloat16).view(PAGE_SHAPE)
                self.pages[page].copy_(typed, non_blocking=True)
                self.uploaded[k].record()
        main.wait_stream(self.h2d)


def remote(sock, count):
    block = torch.randn(PAGE_SHAPE).to(torch.bfloat16).view(torch.uint8).numpy().tobytes()
    for _ in range(count):
        sock.sendall(block)


def main():
    left, right = socket.socketpair()
    sender = threading.Thread(target=remote, args=(left, 8 * 24), daemon=True)
    sender.start()
    pages = torch.zeros(256, *PAGE_SHAPE, device="cuda", dtype=torch.bfloat16)
    puller = PagePuller(right, pages)
    checks = []
    for req in range(8):
        ids = list(range(req * 24, req * 24 + 24))
        puller.pull(ids)
        checks.append(pages[ids].float().sum())
    print(torch.stack(checks).tolist())


if __name__ == "__main__":
    main()
