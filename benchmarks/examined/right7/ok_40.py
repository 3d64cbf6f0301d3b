"""Slots recycled by a device-wide synchronize every lap."""
import torch


class LapBuffer:
    def __init__(self, slots: int, numel: int):
        self.host = torch.empty(slots, numel, pin_memory=True)
        self.dev = torch.empty(slots, numel, device="cuda")
        self.position = 0

    def next(self):
        slot = self.position % self.host.shape[0]
        if slot == 0:
            torch.cuda.synchronize()
        self.position += 1
        return self.host[slot], self.dev[slot]


class Ingest:
    def __init__(self, slots=8, numel=1 << 14):
        self.buf = LapBuffer(slots, numel)
        self.copy = torch.cuda.Stream()
        self.math = torch.cuda.Stream()
        self.acc = torch.zeros(numel, device="cuda")

    def push(self, value: float):
        host, dev = self.buf.next()
        host.fill_(value)
        with torch.cuda.stream(self.copy):
            dev.copy_(host, non_blocking=True)
        self.math.wait_stream(self.copy)
        with torch.cuda.stream(self.math):
            self.acc.add_(dev)

    def result(self) -> float:
        torch.cuda.synchronize()
        return self.acc.sum().item()


if __name__ == "__main__":
    ingest = Ingest()
    for i in range(50):
        ingest.push(float(i))
    print(ingest.result())
