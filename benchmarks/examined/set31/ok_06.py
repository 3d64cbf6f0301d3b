import queue
import threading
from concurrent.futures import Future

import torch


class HostWriter:
    def __init__(self):
        self.jobs = queue.Queue()
        self.stream = torch.cuda.Stream()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def submit(self, tensor):
        ready = torch.cuda.Event()
        ready.record(torch.cuda.current_stream())
        fut = Future()
        self.jobs.put((tensor, ready, fut))
        return fut

    def _run(self):
        while True:
            job = self.jobs.get()
            if job is None:
                return
            tensor, ready, fut = job
            host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            with torch.cuda.stream(self.stream):
                self.stream.wait_event(ready)
                host.copy_(tensor, non_blocking=True)
            self.stream.synchronize()
            fut.set_result(host.numpy())

    def close(self):
        self.jobs.put(None)
        self.thread.join()


def main():
    writer = HostWriter()
    futs = []
    for i in range(8):
        futs.append(writer.submit(torch.full((1024, 1024), float(i), device="cuda") * 2))
    print([f.result().mean() for f in futs])
    writer.close()


if __name__ == "__main__":
    main()
