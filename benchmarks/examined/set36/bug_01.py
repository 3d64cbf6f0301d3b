"""Decode worker with a background saver that moves finished KV pages to host memory."""
import queue
import threading

import torch
import torch.nn as nn


class KVSaver:
    def __init__(self, pool, max_pages, device):
        self.pool = pool
        self.device = device
        self.pack_stream = torch.cuda.Stream(device)
        self.copy_stream = torch.cuda.Stream(device)
        self.stage = torch.empty((max_pages, *pool.shape[1:]), dtype=pool.dtype, device=device)
        self.host = torch.empty(self.stage.shape, dtype=pool.dtype, pin_memory=True)
        self.store = {}
        self.jobs = queue.Queue()
        torch.cuda.synchronize(device)
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def submit(self, key, page_ids):
        self.jobs.put((key, list(page_ids)))

    def close(self):
        self.jobs.put(None)
        self.thread.join()

    def _loop(self):
        torch.cuda.set_device(self.device)
        while True:
            job = self.jobs.get()
            if job is None:
                return
            self._save(*job)

    def _save(self, key, page_ids):
        n = len(page_ids)
        packed = torch.cuda.Event()
        with torch.cuda.stream(self.pack_stream):
            index = torch.tensor(page_ids, dtype=torch.int64, device=self.device)
            torch.index_select(self.pool, 0, index, out=self.stage[:n])
            packed.record(self.pack_stream)
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(packed)
            self.host[:n].copy_(self.stage[:n], non_blocking=True)
        self.copy_stream.synchronize()
        self.store[key] = self.host[:n].clone()


class DecodeWorker:
    def __init__(self, hidden, num_pages, page_size, device="cuda:0"):
        self.device = torch.device(device)
        self.page_size = page_size
        self.layer = nn.Linear(hidden, hidden).to(self.device).eval()
        self.pool = torch.zeros(num_pages, page_size, hidden, device=self.device)
        self.saver = KVSaver(self.pool, num_pages, self.device)

    @torch.no_grad()
    def prefill(self, request_id, hidden_states, page_ids, page_index):
        """hidden_states: (len(page_ids) * page_size, hidden) on the device."""
        kv = self.layer(hidden_states)
        kv = kv.view(len(page_ids), self.page_size, -1)
        self.pool.index_copy_(0, page_index, kv)
        self.saver.submit(request_id, page_ids)
        return kv[-1, -1]


def serve(worker, requests):
    outputs = []
    for rid, states, page_ids in requests:
        index = torch.tensor(page_ids, dtype=torch.int64, device=worker.device)
        outputs.append(worker.prefill(rid, states, page_ids, index))
    worker.saver.close()
    return outputs, worker.saver.store
