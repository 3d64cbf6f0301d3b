"""Streams the embedding rows touched by each step to a key-value store."""
import threading

import numpy as np
import torch
import torch.nn.functional as F


class KVStore:
    def __init__(self):
        self.rows = {}

    def put(self, ids, values):
        for key, row in zip(ids.tolist(), values):
            self.rows[key] = row.copy()


class RowStreamer:
    def __init__(self, max_rows, dim, store, device):
        self.store = store
        self.copy_stream = torch.cuda.Stream(device)
        self.ids_host = torch.empty(max_rows, dtype=torch.int64, pin_memory=True)
        self.rows_host = torch.empty(max_rows, dim, pin_memory=True)
        self.threads = []

    def stream(self, ids, rows):
        n = ids.shape[0]
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            self.ids_host[:n].copy_(ids, non_blocking=True)
            self.rows_host[:n].copy_(rows, non_blocking=True)
            copied = self.copy_stream.record_event()
        ids.record_stream(self.copy_stream)
        rows.record_stream(self.copy_stream)
        thread = threading.Thread(target=self._push, args=(n, copied), daemon=True)
        thread.start()
        self.threads.append(thread)

    def _push(self, n, copied):
        copied.synchronize()
        self.store.put(self.ids_host[:n].numpy(), self.rows_host[:n].numpy())

    def flush(self):
        for thread in self.threads:
            thread.join()
        self.threads.clear()


class StreamedEmbedding:
    def __init__(self, num_rows, dim, max_rows, store, device="cuda"):
        self.device = torch.device(device)
        self.weight = torch.randn(num_rows, dim, device=self.device) * 0.01
        self.head = torch.randn(dim, 1, device=self.device) * 0.01
        self.streamer = RowStreamer(max_rows, dim, store, self.device)

    def step(self, ids, target, lr=0.05):
        rows = self.weight.index_select(0, ids).requires_grad_()
        loss = F.mse_loss(rows @ self.head, target)
        (grad,) = torch.autograd.grad(loss, rows)
        updated = rows.detach() - lr * grad
        self.weight.index_copy_(0, ids, updated)
        self.streamer.stream(ids, updated)
        return loss.detach()


def train(emb, batches):
    losses = []
    for ids, target in batches:
        ids = torch.from_numpy(np.unique(ids)).to(emb.device)
        losses.append(emb.step(ids, target[: ids.shape[0]].to(emb.device)))
    emb.streamer.flush()
    return torch.stack(losses).tolist()
