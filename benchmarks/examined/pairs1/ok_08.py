"""Sampled ids travel to the detokenizer in recycled pinned slots."""
import queue
import threading
from dataclasses import dataclass

import torch


@dataclass
class TokenSlot:
    buf: torch.Tensor
    event: torch.cuda.Event
    count: int = 0


class Detokenizer(threading.Thread):
    def __init__(self, vocab, batch, slots=4):
        super().__init__(daemon=True)
        self.vocab = vocab
        self.ready = queue.Queue()
        self.free = queue.Queue()
        for _ in range(slots):
            buf = torch.empty(batch, dtype=torch.int64, pin_memory=True)
            self.free.put(TokenSlot(buf, torch.cuda.Event()))
        self.text = []

    def run(self):
        while True:
            slot = self.ready.get()
            if slot is None:
                return
            slot.event.synchronize()
            ids = slot.buf[: slot.count].tolist()
            self.free.put(slot)
            self.text.append("".join(self.vocab[i % len(self.vocab)] for i in ids))


class Engine:
    def __init__(self, detok):
        self.detok = detok
        self.copy_stream = torch.cuda.Stream()
        self.head = torch.randn(256, 32000, device="cuda")

    def step(self, hidden):
        tokens = (hidden @ self.head).argmax(-1)
        slot = self.detok.free.get()
        slot.count = tokens.numel()
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            slot.buf[: slot.count].copy_(tokens, non_blocking=True)
            slot.event.record()
        tokens.record_stream(self.copy_stream)
        self.detok.ready.put(slot)


def main():
    detok = Detokenizer(["a", "b", "c"], 64)
    detok.start()
    engine = Engine(detok)
    for _ in range(500):
        engine.step(torch.randn(64, 256, device="cuda"))
    detok.ready.put(None)
    detok.join()
    print(len(detok.text))


if __name__ == "__main__":
    main()
