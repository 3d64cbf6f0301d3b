"""Prefill side of a disaggregated server: send KV pages to the decode node."""
import queue
import threading
from dataclasses import dataclass

import torch
import zmq


@dataclass
class TransferKVChunk:
    room: int
    page_indices: torch.Tensor
    index: int
    is_last: bool


class KVPool:
    def __init__(self, num_layers, num_pages, page_size, head_dim, device):
        self.kv_buffer = [
            torch.zeros(num_pages, page_size, 2, head_dim, dtype=torch.bfloat16, device=device)
            for _ in range(num_layers)
        ]


class KVSender:
    def __init__(self, pool, endpoint, device, num_workers=2, max_pages=64):
        self.pool = pool
        self.device = device
        self.endpoint = endpoint
        self.transfer_queues = [queue.Queue() for _ in range(num_workers)]
        self.workers = []
        for q in self.transfer_queues:
            t = threading.Thread(target=self.transfer_worker, args=(q, max_pages), daemon=True)
            t.start()
            self.workers.append(t)

    def add_transfer_request(self, room, page_indices, index, is_last):
        q = self.transfer_queues[room % len(self.transfer_queues)]
        q.put(TransferKVChunk(room, page_indices, index, is_last))

    def transfer_worker(self, q, max_pages):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(device=self.device)
        sock = zmq.Context.instance().socket(zmq.PUSH)
        sock.connect(self.endpoint)
        sample = self.pool.kv_buffer[0]
        staging = torch.empty(
            (len(self.pool.kv_buffer), max_pages, *sample.shape[1:]),
            dtype=sample.dtype, pin_memory=True,
        )
        while True:
            chunk = q.get()
            if chunk is None:
                return
            n = len(chunk.page_indices)
            with torch.cuda.stream(stream):
                for layer, kv in enumerate(self.pool.kv_buffer):
                    staging[layer, :n].copy_(kv[chunk.page_indices], non_blocking=True)
            stream.synchronize()
            header = {"room": chunk.room, "index": chunk.index, "last": chunk.is_last}
            sock.send_json(header, zmq.SNDMORE)
            sock.send(staging[:, :n].contiguous().view(torch.uint8).numpy().tobytes())

    def close(self):
        for q in self.transfer_queues:
            q.put(None)
        for t in self.workers:
            t.join()


class PrefillModel(torch.nn.Module):
    def __init__(self, num_layers, head_dim):
        super().__init__()
        self.kv_proj = torch.nn.ModuleList(
            torch.nn.Linear(head_dim, 2 * head_dim) for _ in range(num_layers)
        )

    def prefill(self, hidden, kv_buffer, pages):
        for proj, kv in zip(self.kv_proj, kv_buffer):
            kv[pages] = proj(hidden).view(len(pages), *kv.shape[1:])
            hidden = hidden + kv[pages].mean(dim=2).view_as(hidden)
        return hidden


class PrefillScheduler:
    def __init__(self, model, pool, sender, chunk_pages=64):
        self.model = model
        self.pool = pool
        self.sender = sender
        self.chunk_pages = chunk_pages

    @torch.inference_mode()
    def run_request(self, req):
        pages = req.page_indices
        first = None
        for i in range(0, len(pages), self.chunk_pages):
            chunk = pages[i:i + self.chunk_pages]
            hidden = self.model.prefill(req.embeds_for(i, len(chunk)), self.pool.kv_buffer, chunk)
            is_last = i + self.chunk_pages >= len(pages)
            self.sender.add_transfer_request(req.room, chunk, i // self.chunk_pages, is_last)
            if is_last:
                first = hidden[-1].argmax()
        return first


def serve(requests, endpoint, cfg):
    device = torch.device("cuda", cfg.gpu_id)
    model = PrefillModel(cfg.num_layers, cfg.head_dim).to(device, torch.bfloat16)
    pool = KVPool(cfg.num_layers, cfg.num_pages, cfg.page_size, cfg.head_dim, device)
    sender = KVSender(pool, endpoint, device)
    scheduler = PrefillScheduler(model, pool, sender)
    tokens = [scheduler.run_request(r) for r in requests]
    torch.cuda.synchronize(device)
    sender.close()
    return [int(t) for t in tokens]
