"""Prefill side of disaggregated serving: finished blocks leave through a sender thread."""
import queue
import socket
import threading

import torch


class SendSlot:
    def __init__(self, shape):
        self.buf = torch.empty(shape, dtype=torch.float16, pin_memory=True)
        self.event = torch.cuda.Event()


class KVSender(threading.Thread):
    def __init__(self, sock, kv, slots=4):
        super().__init__(daemon=True)
        self.sock, self.kv = sock, kv
        self.stream = torch.cuda.Stream()
        self.free, self.outbox = queue.Queue(), queue.Queue()
        for _ in range(slots):
            self.free.put(SendSlot(kv.shape[1:]))

    def stage(self, blocks):
        main = torch.cuda.current_stream()
        self.stream.wait_stream(main)
        for b in blocks:
            slot = self.free.get()
            with torch.cuda.stream(self.stream):
                slot.buf.copy_(self.kv[b], non_blocking=True)
                slot.event.record()
            self.outbox.put(slot)
        main.wait_stream(self.stream)

    def run(self):
        while (slot := self.outbox.get()) is not None:
            slot.event.synchronize()
            self.sock.sendall(memoryview(slot.buf.numpy()).cast("B"))
            self.free.put(slot)


def sink(sock):
    while sock.recv(1 << 20):
        pass


def main(requests=32, blocks=64):
    a, b = socket.socketpair()
    threading.Thread(target=sink, args=(b,), daemon=True).start()
    kv = torch.zeros(blocks, 16, 1024, device="cuda", dtype=torch.float16)
    w = torch.randn(1024, 1024, device="cuda", dtype=torch.float16) / 32
    sender = KVSender(a, kv)
    sender.start()
    for r in range(requests):
        x = torch.randn(8, 16, 1024, device="cuda", dtype=torch.float16)
        ids = [(r * 8 + i) % blocks for i in range(8)]
        kv[ids[0] : ids[0] + 8] = torch.tanh(x @ w)
        sender.stage(ids)
    sender.outbox.put(None)
    sender.join()
    a.close()


if __name__ == "__main__":
    main()
