import torch


class Slot:
    def __init__(self, shape):
        self.host = torch.empty(shape, pin_memory=True)
        self.dev = torch.empty(shape, device="cuda")
        self.copied = torch.cuda.Event()
        self.used = torch.cuda.Event()


class Feeder:
    def __init__(self, shape, depth=3):
        self.slots = [Slot(shape) for _ in range(depth)]
        self.stream = torch.cuda.Stream()
        self.turn = 0
        torch.cuda.synchronize()

    def push(self, array):
        slot = self.slots[self.turn % len(self.slots)]
        self.turn += 1
        slot.copied.synchronize()
        slot.host.copy_(array)
        self.stream.wait_event(slot.used)
        with torch.cuda.stream(self.stream):
            slot.dev.copy_(slot.host, non_blocking=True)
            slot.copied.record()
        return slot


def consume(model, slot):
    cur = torch.cuda.current_stream()
    cur.wait_event(slot.copied)
    y = model(slot.dev)
    slot.used.record(cur)
    return y


def main():
    model = torch.nn.Linear(1024, 1024, device="cuda")
    feeder = Feeder((64, 1024))
    total = torch.zeros((), device="cuda")
    with torch.no_grad():
        for _ in range(20):
            slot = feeder.push(torch.randn(64, 1024))
            total += consume(model, slot).sum()
    print(total.item())


if __name__ == "__main__":
    main()
