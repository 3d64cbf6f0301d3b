import threading
from queue import Queue

import torch


class _Stop:
    pass


class FeatureStore:
    def __init__(self, feats):
        self.feats = feats.pin_memory()

    def gather(self, ids):
        out = torch.empty((ids.numel(), self.feats.shape[1]), dtype=self.feats.dtype, pin_memory=True)
        torch.index_select(self.feats, 0, ids, out=out)
        return out


class AsyncFeatureLoader:
    """Samples on a worker thread and moves node features on an alternate stream."""

    def __init__(self, sampler, store, labels, device, depth=2):
        self.sampler = sampler
        self.store = store
        self.labels = labels
        self.device = device
        self.depth = depth

    def _worker(self, queue, stream, stop):
        torch.cuda.set_device(self.device)
        try:
            for input_nodes, output_nodes, adjs in self.sampler:
                if stop.is_set():
                    return
                feats = self.store.gather(input_nodes)
                labels = self.labels[output_nodes].pin_memory()
                with torch.cuda.stream(stream):
                    dev = [feats.to(self.device, non_blocking=True)]
                    dev.append(labels.to(self.device, non_blocking=True))
                    dev.extend(a.pin_memory().to(self.device, non_blocking=True) for a in adjs)
                    event = torch.cuda.Event()
                    event.record()
                queue.put((dev, event))
            queue.put(_Stop)
        except Exception as exc:
            queue.put(exc)

    def __iter__(self):
        queue = Queue(self.depth)
        stop = threading.Event()
        stream = torch.cuda.Stream(self.device)
        worker = threading.Thread(target=self._worker, args=(queue, stream, stop), daemon=True)
        worker.start()
        try:
            while True:
                item = queue.get()
                if item is _Stop:
                    break
                if isinstance(item, Exception):
                    raise item
                tensors, event = item
                current = torch.cuda.current_stream(self.device)
                current.wait_event(event)
                for t in tensors:
                    t.record_stream(current)
                yield tensors[0], tensors[1], tensors[2:]
        finally:
            stop.set()
            while worker.is_alive() and not queue.empty():
                queue.get_nowait()
            worker.join()


def train(model, opt, loader, epochs):
    for _ in range(epochs):
        total = 0.0
        for feats, labels, adjs in loader:
            logits = model(feats, adjs)
            loss = torch.nn.functional.cross_entropy(logits, labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(total)
