import queue
import socket
import struct
import threading
from dataclasses import dataclass

import torch


@dataclass
class MemoryObj:
    tensor: torch.Tensor
    index: int


class PagedAllocator:
    def __init__(self, pages, shape, device):
        kw = dict(pin_memory=True) if device == "cpu" else dict(device=device)
        self.pages = torch.empty(pages, *shape, dtype=torch.bfloat16, **kw)
        self.free = queue.Queue()
        for i in range(pages):
            self.free.put(i)

    def allocate(self):
        i = self.free.get()
        return MemoryObj(self.pages[i], i)

    def release(self, obj):
        self.free.put(obj.index)


class PagedMemGPUConnector:
    def __init__(self, kvcaches):
        self.kvcaches = kvcaches
        self.store_stream = torch.cuda.Stream()

    def from_gpu(self, memory_obj, slot_mapping):
        self.store_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.store_stream):
            slot_mapping.record_stream(self.store_stream)
            for layer, cache in enumerate(self.kvcaches):
                memory_obj.tensor[layer].copy_(cache.index_select(0, slot_mapping), non_blocking=True)
        if not memory_obj.tensor.is_cuda:
            self.store_stream.synchronize()


class PDSender(threading.Thread):
    def __init__(self, address, allocator, shape):
        super().__init__(daemon=True)
        self.sock = socket.create_connection(address)
        self.allocator = allocator
        self.tasks = queue.Queue()
        self.staging = torch.empty(shape, dtype=torch.bfloat16, pin_memory=True)

    def submit(self, key, memory_obj):
        self.tasks.put((key, memory_obj))

    def run(self):
        stream = torch.cuda.Stream()
        payload = self.staging.view(torch.uint8).numpy()
        while True:
            key, obj = self.tasks.get()
            if obj is None:
                return
            with torch.cuda.stream(stream):
                self.staging.copy_(obj.tensor, non_blocking=True)
            stream.synchronize()
            self.allocator.release(obj)
            self.sock.sendall(struct.pack("!QQ", key, payload.nbytes))
            self.sock.sendall(payload.tobytes())


class CacheEngine:
    def __init__(self, kvcaches, address, chunk=256, buffer_device="cuda", pages=64):
        shape = (len(kvcaches), chunk, kvcaches[0].shape[1])
        self.chunk = chunk
        self.allocator = PagedAllocator(pages, shape, buffer_device)
        self.connector = PagedMemGPUConnector(kvcaches)
        self.sender = PDSender(address, self.allocator, shape)
        self.sender.start()

    def store(self, token_hashes, slot_mapping):
        for i, key in enumerate(token_hashes):
            obj = self.allocator.allocate()
            self.connector.from_gpu(obj, slot_mapping[i * self.chunk : (i + 1) * self.chunk])
            self.sender.submit(key, obj)

    def close(self):
        self.sender.submit(0, None)
        self.sender.join()


def prefill(model, requests, engine):
    for req in requests:
        logits = model(req.input_ids.cuda(non_blocking=True), req.slot_mapping)
        engine.store(req.chunk_hashes, req.slot_mapping)
        req.first_token = int(logits[-1].argmax())
