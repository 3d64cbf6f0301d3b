"""Prefill node: transfer workers read KV pages behind the forward that wrote them."""
import socket
import struct
import threading
from collections import deque
from dataclasses import dataclass
from queue import Queue

import torch
import torch.nn as nn


@dataclass
class KVChunk:
    room: int
    seq: int
    pages: list
    written: torch.cuda.Event


class PageAllocator:
    def __init__(self, num_pages):
        self.free = deque(range(num_pages))
        self.cond = threading.Condition()

    def alloc(self, n):
        with self.cond:
            self.cond.wait_for(lambda: len(self.free) >= n)
            return [self.free.popleft() for _ in range(n)]

    def release(self, pages):
        with self.cond:
            self.free.extend(pages)
            self.cond.notify_all()


class TransferWorker(threading.Thread):
    def __init__(self, kv, allocator, address, max_pages, device):
        super().__init__(daemon=True)
        self.kv = kv
        self.allocator = allocator
        self.address = address
        self.device = device
        self.queue = Queue()
        self.stream = torch.cuda.Stream(device=device)
        self.staging = torch.empty(
            (kv.shape[0], max_pages, *kv.shape[2:]), dtype=kv.dtype, pin_memory=True
        )

    def run(self):
        torch.cuda.set_device(self.device)
        conn = socket.create_connection(self.address)
        while True:
            chunk = self.queue.get()
            if chunk is None:
                conn.close()
                return
            n = len(chunk.pages)
            self.stream.wait_event(chunk.written)
            with torch.cuda.stream(self.stream):
                for j, page in enumerate(chunk.pages):
                    self.staging[:, j].copy_(self.kv[:, page], non_blocking=True)
                copied = self.stream.record_event()
            copied.synchronize()
            payload = self.staging[:, :n].contiguous().view(torch.uint8).numpy().tobytes()
            conn.sendall(struct.pack("<qqq", chunk.room, chunk.seq, len(payload)))
            conn.sendall(payload)
            self.allocator.release(chunk.pages)


class PrefillModel(nn.Module):
    def __init__(self, layers, dim):
        super().__init__()
        self.proj = nn.ModuleList(nn.Linear(dim, 2 * dim) for _ in range(layers))
        self.mix = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers))

    def forward(self, x, kv, pages):
        index = torch.tensor(pages).to(x.device)
        for i, (proj, mix) in enumerate(zip(self.proj, self.mix)):
            kv[i, index] = proj(x).view(len(pages), *kv.shape[2:])
            x = x + torch.relu(mix(x))
        return x


class PrefillServer:
    def __init__(self, layers, dim, num_pages, page_size, address, device, max_pages=64):
        self.device = device
        self.page_size = page_size
        self.max_pages = max_pages
        self.model = PrefillModel(layers, dim).to(device, torch.bfloat16)
        self.kv = torch.zeros(layers, num_pages, page_size, 2 * dim, dtype=torch.bfloat16, device=device)
        self.allocator = PageAllocator(num_pages)
        self.workers = [
            TransferWorker(self.kv, self.allocator, address, max_pages, device) for _ in range(2)
        ]
        for w in self.workers:
            w.start()

    @torch.inference_mode()
    def prefill(self, room, embeds):
        rows = self.max_pages * self.page_size
        for seq, part in enumerate(embeds.split(rows)):
            pages = self.allocator.alloc(part.shape[0] // self.page_size)
            hidden = self.model(part.to(self.device), self.kv, pages)
            written = torch.cuda.current_stream(self.device).record_event()
            self.workers[room % 2].queue.put(KVChunk(room, seq, pages, written))
        return hidden[-1]

    def close(self):
        for w in self.workers:
            w.queue.put(None)
            w.join()
