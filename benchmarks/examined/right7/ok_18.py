"""Worker threads that all issue to the device's default stream."""
import queue
import threading

import torch


class Stage(threading.Thread):
    def __init__(self, fn, inbox: queue.Queue, outbox: queue.Queue):
        super().__init__(daemon=True)
        self.fn, self.inbox, self.outbox = fn, inbox, outbox

    def run(self):
        torch.cuda.set_device(0)
        with torch.inference_mode():
            while True:
                item = self.inbox.get()
                if item is None:
                    self.outbox.put(None)
                    return
                self.outbox.put(self.fn(item))


class ThreadedPipeline:
    def __init__(self, *fns):
        self.queues = [queue.Queue(maxsize=4) for _ in range(len(fns) + 1)]
        self.stages = [Stage(f, a, b) for f, a, b in zip(fns, self.queues, self.queues[1:])]
        for s in self.stages:
            s.start()

    def feed(self, batches):
        for b in batches:
            self.queues[0].put(b)
        self.queues[0].put(None)

    def results(self):
        while (item := self.queues[-1].get()) is not None:
            yield item


def main():
    weight = torch.randn(256, 256, device="cuda")
    pipe = ThreadedPipeline(
        lambda h: h.pin_memory().to("cuda", non_blocking=True),
        lambda x: torch.tanh(x @ weight),
        lambda x: x.topk(5).values,
    )
    feeder = threading.Thread(target=pipe.feed, args=(torch.randn(20, 64, 256).unbind(0),))
    feeder.start()
    total = sum(v.sum().item() for v in pipe.results())
    feeder.join()
    print(total)


if __name__ == "__main__":
    main()
