import queue
import threading

import torch


class PinnedFeatureStore:
    def __init__(self, features, labels):
        self.features = features
        self.labels = labels

    def fetch(self, indices, device):
        rows = torch.empty(indices.shape[0], *self.features.shape[1:],
                           dtype=self.features.dtype, pin_memory=True)
        torch.index_select(self.features, 0, indices, out=rows)
        labels = self.labels[indices].pin_memory()
        staged = (rows, labels)
        return (rows.to(device, non_blocking=True),
                labels.to(device, non_blocking=True)), staged


class NodePrefetcher:
    """Iterates over minibatches whose features were fetched ahead of use."""

    def __init__(self, store, seeds, batch_size, device, depth=3):
        self.store = store
        self.seeds = seeds
        self.batch_size = batch_size
        self.device = torch.device(device)
        self.depth = depth
        self.stream = torch.cuda.Stream(device=self.device)

    def _worker(self, perm, out):
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.stream):
            for start in range(0, len(perm), self.batch_size):
                indices = perm[start:start + self.batch_size]
                tensors, staged = self.store.fetch(indices, self.device)
                done = self.stream.record_event()
                out.put((tensors, staged, done))
        out.put(None)

    def __iter__(self):
        perm = self.seeds[torch.randperm(len(self.seeds))]
        out = queue.Queue(self.depth)
        thread = threading.Thread(target=self._worker, args=(perm, out), daemon=True)
        thread.start()
        while True:
            item = out.get()
            if item is None:
                break
            tensors, _, done = item
            current = torch.cuda.current_stream(self.device)
            current.wait_event(done)
            for t in tensors:
                t.record_stream(current)
            yield tensors
        thread.join()


def train(model, store, seeds, epochs=3):
    optim = torch.optim.Adam(model.parameters())
    for _ in range(epochs):
        for feats, labels in NodePrefetcher(store, seeds, 1024, "cuda:0"):
            loss = torch.nn.functional.cross_entropy(model(feats), labels)
            optim.zero_grad()
            loss.backward()
            optim.step()
