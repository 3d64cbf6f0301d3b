"""Background thread that uploads batches and hands them over a bounded queue."""
import queue
import threading

import torch

_DONE = object()


class BackgroundUploader:
    def __init__(self, source, device="cuda:0", depth=2):
        self.source = source
        self.device = torch.device(device)
        self.items = queue.Queue(maxsize=depth)
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="uploader", daemon=True)

    def _put(self, item):
        while not self.stopping.is_set():
            try:
                self.items.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def _run(self):
        try:
            torch.cuda.set_device(self.device)
            upload = torch.cuda.Stream(self.device)
            with torch.cuda.stream(upload):
                for arrays in self.source:
                    pinned = [torch.from_numpy(a).pin_memory() for a in arrays]
                    tensors = [p.to(self.device, non_blocking=True) for p in pinned]
                    if tensors[0].dtype == torch.uint8:
                        tensors[0] = tensors[0].to(torch.float32) / 255
                    event = torch.cuda.Event()
                    event.record()
                    if not self._put((tensors, event)):
                        return
        except BaseException as exc:
            self._put(exc)
        else:
            self._put(_DONE)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stopping.set()
        self.thread.join()

    def __iter__(self):
        while True:
            item = self.items.get()
            if item is _DONE:
                return
            if isinstance(item, BaseException):
                raise item
            tensors, event = item
            mine = torch.cuda.current_stream(self.device)
            mine.wait_event(event)
            for t in tensors:
                t.record_stream(mine)
            yield tensors


def mean_activation(model, source):
    total, count = None, 0
    with BackgroundUploader(source) as feed, torch.no_grad():
        for x, _ in feed:
            out = model(x).mean(0)
            total = out if total is None else total + out
            count += 1
    return None if total is None else (total / count).cpu()
