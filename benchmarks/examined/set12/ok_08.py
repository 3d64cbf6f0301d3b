import threading
from queue import Queue

import torch


class EpochIterator(threading.Thread):
    def __init__(self, decode, order, shape, mean, std, batches_ahead=3, device="cuda"):
        super().__init__(daemon=True)
        self.decode = decode
        self.order = order
        self.device = torch.device(device)
        self.mean = mean.to(self.device)
        self.std = std.to(self.device)
        n = batches_ahead + 2
        self.cpu = [torch.empty(shape, dtype=torch.uint8, pin_memory=True) for _ in range(n)]
        self.gpu = [torch.empty(shape, device=self.device) for _ in range(n)]
        self.copied = [torch.cuda.Event() for _ in range(n)]
        self.done = [torch.cuda.Event() for _ in range(n)]
        self.streams = [torch.cuda.Stream(self.device) for _ in range(n)]
        self.free = Queue()
        for slot in range(n):
            self.free.put(slot)
        self.output_queue = Queue(batches_ahead)
        self.last = None
        torch.cuda.synchronize(self.device)
        self.start()

    def run(self):
        for indices in self.order:
            slot = self.free.get()
            self.copied[slot].synchronize()
            self.decode(indices, self.cpu[slot].numpy())
            stream = self.streams[slot]
            with torch.cuda.stream(stream):
                stream.wait_event(self.done[slot])
                raw = self.cpu[slot].to(self.device, non_blocking=True)
                self.copied[slot].record(stream)
                torch.sub(raw, self.mean, out=self.gpu[slot])
                self.gpu[slot].div_(self.std)
                event = torch.cuda.Event()
                event.record(stream)
            self.output_queue.put((slot, event))
        self.output_queue.put(None)

    def __iter__(self):
        return self

    def __next__(self):
        if self.last is not None:
            self.done[self.last].record(torch.cuda.current_stream(self.device))
            self.free.put(self.last)
            self.last = None
        item = self.output_queue.get()
        if item is None:
            raise StopIteration
        slot, event = item
        torch.cuda.current_stream(self.device).wait_event(event)
        self.last = slot
        return self.gpu[slot]


@torch.no_grad()
def compare(model_a, model_b, iterator):
    worst = 0.0
    for images in iterator:
        a = model_a(images)
        b = model_b(images)
        worst = torch.maximum(torch.as_tensor(worst, device=a.device), (a - b).abs().max())
    return float(worst)
