"""Background thread that decodes and uploads samples."""
import queue
import threading

import torch

_END = object()


class BackgroundUploader:
    def __init__(self, dataset, decode, device=0, capacity=4):
        self.dataset = dataset
        self.decode = decode
        self.device = torch.device("cuda", device)
        self.items = queue.Queue(maxsize=capacity)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _put(self, item):
        while not self.stop.is_set():
            try:
                self.items.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def _send(self, tensor):
        staged = torch.empty_like(tensor, pin_memory=True).copy_(tensor)
        return staged.to(self.device, non_blocking=True)

    def _work(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        try:
            with torch.cuda.stream(stream):
                for record in self.dataset:
                    image, label = self.decode(record)
                    image = self._send(image)
                    image = image.float().div_(255.0)
                    label = self._send(label)
                    event = torch.cuda.Event()
                    event.record(stream)
                    if not self._put((image, label, event)):
                        return
            self._put(_END)
        except Exception as error:
            self._put(error)

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            try:
                item = self.items.get(timeout=0.1)
                break
            except queue.Empty:
                if self.stop.is_set():
                    raise StopIteration from None
        if item is _END:
            self._put(_END)
            raise StopIteration
        if isinstance(item, Exception):
            self._put(_END)
            raise item
        image, label, event = item
        stream = torch.cuda.current_stream(self.device)
        event.wait(stream)
        for tensor in (image, label):
            tensor.record_stream(stream)
        return image, label

    def close(self):
        self.stop.set()
        self.thread.join()


def evaluate(model, dataset, decode):
    loader = BackgroundUploader(dataset, decode)
    correct, seen = 0, 0
    try:
        with torch.no_grad():
            for image, label in loader:
                pred = model(image).argmax(dim=-1)
                correct += (pred == label).sum().item()
                seen += label.numel()
    finally:
        loader.close()
    return correct / max(seen, 1)
