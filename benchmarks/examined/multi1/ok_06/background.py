import queue
import threading

import torch


class BackgroundLoader:
    def __init__(self, make_batch, count, device=0, depth=3):
        self._make = make_batch
        self._count = count
        self._device = torch.device("cuda", device)
        self._q = queue.Queue(maxsize=depth)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def transform(self, tensors):
        return tensors

    def _work(self):
        torch.cuda.set_device(self._device)
        lane = torch.cuda.Stream()
        with torch.cuda.stream(lane):
            for i in range(self._count):
                host = [h.pin_memory() for h in self._make(i)]
                dev = [h.to(self._device, non_blocking=True) for h in host]
                dev = self.transform(dev)
                lane.synchronize()
                self._q.put(dev)
        self._q.put(None)

    def get(self):
        item = self._q.get()
        if item is None:
            self._thread.join()
            return None
        here = torch.cuda.current_stream(self._device)
        for t in item:
            t.record_stream(here)
        return item
