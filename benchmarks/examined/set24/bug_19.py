import threading
from queue import Queue

import torch
import torch.distributed as dist


class LayerLoader(threading.Thread):
    """Fills KV layers from the pooled host store; signals each layer once its copy is issued."""

    def __init__(self, kv_caches, host_store, owned):
        super().__init__(daemon=True)
        self.owned = owned
        self.kv_caches = kv_caches
        self.host_store = host_store
        self.stream = torch.cuda.Stream()
        self.requests = Queue()
        n = len(kv_caches)
        self.issued = [threading.Event() for _ in range(n)]
        self.ready = [torch.cuda.Event() for _ in range(n)]

    def reset(self):
        for e in self.issued:
            e.clear()

    def run(self):
        torch.cuda.set_device(self.kv_caches[0].device)
        while True:
            job = self.requests.get()
            if job is None:
                return
            keys, slots = job
            for layer in self.owned:
                kv, host = self.kv_caches[layer], self.host_store[layer]
                with torch.cuda.stream(self.stream):
                    for key, slot in zip(keys, slots):
                        kv[slot].copy_(host[key], non_blocking=True)
                    self.ready[layer].record(self.stream)
                self.issued[layer].set()

    def wait_for_layer_load(self, layer):
        self.issued[layer].wait()
        torch.cuda.current_stream().wait_event(self.ready[layer])


class KVPPPrefetcher(threading.Thread):
    """Broadcasts the owner's KV layer to the group ahead of the attention that needs it."""

    def __init__(self, kv_caches, owners, group, rank):
        super().__init__(daemon=True)
        self.kv_caches, self.owners = kv_caches, owners
        self.group, self.rank = group, rank
        self.stream = torch.cuda.Stream()
        self.tasks = Queue()
        self.sent = [threading.Event() for _ in kv_caches]
        self.done = [torch.cuda.Event() for _ in kv_caches]

    def submit(self, layer, compute_event):
        self.sent[layer].clear()
        self.tasks.put((layer, compute_event))

    def run(self):
        torch.cuda.set_device(self.kv_caches[0].device)
        while True:
            task = self.tasks.get()
            if task is None:
                return
            layer, compute_event = task
            self.stream.wait_event(compute_event)
            with torch.cuda.stream(self.stream):
                dist.broadcast(self.kv_caches[layer], src=self.owners[layer], group=self.group)
                self.done[layer].record(self.stream)
            self.sent[layer].set()

    def wait(self, layer):
        self.sent[layer].wait()
        torch.cuda.current_stream().wait_event(self.done[layer])


class Worker:
    def __init__(self, layers, kv_caches, host_store, owners, group, rank):
        self.layers = layers
        owned = [i for i, owner in enumerate(owners) if owner == rank]
        self.loader = LayerLoader(kv_caches, host_store, owned)
        self.kvpp = KVPPPrefetcher(kv_caches, owners, group, rank)
        self.kv_caches, self.owners, self.rank = kv_caches, owners, rank
        torch.cuda.synchronize()
        self.loader.start()
        self.kvpp.start()

    def _submit(self, layer):
        event = torch.cuda.Event()
        event.record()
        self.kvpp.submit(layer, event)

    @torch.inference_mode()
    def forward(self, x, load_job):
        torch.cuda.current_stream().synchronize()
        self.loader.reset()
        self.loader.requests.put(load_job)
        self._submit(0)
        for i, layer in enumerate(self.layers):
            if i + 1 < len(self.layers):
                self._submit(i + 1)
            self.kvpp.wait(i)
            if self.owners[i] == self.rank:
                self.loader.wait_for_layer_load(i)
            x = layer(x, self.kv_caches[i])
        return x
