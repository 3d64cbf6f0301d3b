"""Loader thread that recycles device buffers acknowledged by the trainer."""
import queue
import threading

import torch


class LoaderThread(threading.Thread):
    def __init__(self, source, batch, dim, depth, device="cuda"):
        super().__init__(daemon=True)
        self.source = source
        self.device = torch.device(device, torch.cuda.current_device())
        self.host = [torch.empty(batch, dim, pin_memory=True) for _ in range(depth)]
        self.buffers = [torch.empty(batch, dim, device=self.device) for _ in range(depth)]
        self.uploaded = [torch.cuda.Event() for _ in range(depth)]
        self.ready = queue.Queue(maxsize=depth)
        self.acks = queue.Queue()
        created = torch.cuda.current_stream().record_event()
        for index in range(depth):
            self.acks.put((index, created))

    def run(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for sample in self.source:
                index, consumed = self.acks.get()
                self.uploaded[index].synchronize()
                self.host[index].copy_(sample)
                stream.wait_event(consumed)
                self.buffers[index].copy_(self.host[index], non_blocking=True)
                self.uploaded[index].record(stream)
                self.buffers[index].sub_(self.buffers[index].mean(dim=0))
                self.ready.put((index, stream.record_event()))
        self.ready.put(None)

    def __iter__(self):
        self.start()
        while (item := self.ready.get()) is not None:
            index, filled = item
            stream = torch.cuda.current_stream()
            stream.wait_event(filled)
            try:
                yield self.buffers[index]
            finally:
                self.acks.put((index, stream.record_event()))


def whiten_step(cov, batch, momentum=0.95):
    cov.mul_(momentum).addmm_(batch.T, batch, alpha=(1 - momentum) / batch.shape[0])


def main(batches=50, batch=512, dim=64):
    source = (torch.randn(batch, dim) * (1 + i % 5) for i in range(batches))
    cov = torch.eye(dim, device="cuda")
    for data in LoaderThread(source, batch, dim, depth=3):
        whiten_step(cov, data)
    return torch.linalg.eigvalsh(cov).tolist()


if __name__ == "__main__":
    print(main()[-1])
