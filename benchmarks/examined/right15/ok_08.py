"""Background uploader: one thread owns the copy stream and the pinned buffers."""
import queue
import threading
from collections import deque

import numpy as np
import torch

_END = object()


class Uploader:
    def __init__(self, source, shape, device="cuda:0", depth=3):
        self.device = torch.device(device)
        self.source = source
        self._out = queue.Queue(maxsize=depth)
        self._stop = threading.Event()
        self._pinned = [torch.empty(shape, pin_memory=True) for _ in range(depth)]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _offer(self, item):
        while not self._stop.is_set():
            try:
                self._out.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def _run(self):
        try:
            torch.cuda.set_device(self.device)
            stream = torch.cuda.Stream(self.device)
            spare = deque(self._pinned)
            busy = deque()
            for array in self.source:
                if not spare:
                    done, host = busy.popleft()
                    done.synchronize()
                    spare.append(host)
                host = spare.popleft()
                host.copy_(torch.from_numpy(array))
                with torch.cuda.stream(stream):
                    batch = host.to(self.device, non_blocking=True)
                done = stream.record_event()
                busy.append((done, host))
                if not self._offer((batch, done)):
                    return
        except BaseException as error:
            self._offer(error)
        else:
            self._offer(_END)

    def __iter__(self):
        while True:
            item = self._out.get()
            if item is _END:
                return
            if isinstance(item, BaseException):
                raise item
            batch, done = item
            current = torch.cuda.current_stream(self.device)
            current.wait_event(done)
            batch.record_stream(current)
            yield batch

    def close(self):
        self._stop.set()
        self._thread.join()


def source(count, shape):
    rng = np.random.default_rng(3)
    for _ in range(count):
        yield rng.random(shape, dtype=np.float32)


def main():
    uploader = Uploader(source(32, (512, 512)), (512, 512))
    try:
        acc = torch.zeros(512, 512, device=uploader.device)
        for batch in uploader:
            acc.addmm_(batch, batch.t())
        print(acc.trace().item())
    finally:
        uploader.close()


if __name__ == "__main__":
    main()
