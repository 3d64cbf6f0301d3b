import threading
from queue import Queue

import torch


class MiniBatch:
    """Sampled message-flow graph: edges, input features, labels."""

    def __init__(self, src, dst, feats, labels):
        self.src = src
        self.dst = dst
        self.feats = feats
        self.labels = labels

    def to(self, device, non_blocking=False):
        return MiniBatch(*(t.to(device, non_blocking=non_blocking)
                           for t in (self.src, self.dst, self.feats, self.labels)))


def _prefetch(batch, features, device, stream):
    with torch.cuda.stream(stream):
        feats = torch.empty((len(batch.feats), features.shape[1]),
                            dtype=features.dtype, pin_memory=True)
        torch.index_select(features, 0, batch.feats, out=feats)
        batch = MiniBatch(batch.src, batch.dst, feats, batch.labels)
        return batch.to(device, non_blocking=True)


def _prefetcher_entry(dataloader_it, features, device, queue, stream):
    for batch in dataloader_it:
        batch = _prefetch(batch, features, device, stream)
        queue.put((batch, stream.record_event()))
    queue.put((None, None))


class PrefetchingIter:

    def __init__(self, dataloader_it, features, device):
        self.queue = Queue(1)
        self.stream = torch.cuda.Stream(device=device)
        self.thread = threading.Thread(
            target=_prefetcher_entry,
            args=(dataloader_it, features, device, self.queue, self.stream),
            daemon=True)
        self.thread.start()

    def __iter__(self):
        return self

    def __next__(self):
        batch, stream_event = self.queue.get()
        if batch is None:
            self.thread.join()
            raise StopIteration
        stream_event.wait()
        return batch


def sage_forward(conv, batch, n_dst):
    h = batch.feats[batch.src]
    agg = torch.zeros(n_dst, h.shape[1], device=h.device).index_add_(0, batch.dst, h)
    return conv(torch.cat([batch.feats[:n_dst], agg], dim=1))


def train_epoch(conv, opt, loader, features, device):
    for batch in PrefetchingIter(iter(loader), features, device):
        n_dst = batch.labels.shape[0]
        logits = sage_forward(conv, batch, n_dst)
        loss = torch.nn.functional.cross_entropy(logits, batch.labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
