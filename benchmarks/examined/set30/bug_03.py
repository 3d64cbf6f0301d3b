"""Prefill worker that hands pages of the KV pool to a decode worker on a peer GPU."""
import queue
import threading
from dataclasses import dataclass

import torch


@dataclass
class TransferChunk:
    request_id: int
    pages: torch.Tensor
    last: bool


class PageSender:
    """Copies pages into the decode side's landing buffer, one request at a time."""

    def __init__(self, kv_pool, landing, device):
        self.kv_pool = kv_pool
        self.landing = landing
        self.device = device
        self.inbox = queue.Queue()
        self.done = queue.Queue()
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def submit(self, chunk):
        self.inbox.put(chunk)

    def _loop(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        while True:
            chunk = self.inbox.get()
            if chunk is None:
                return
            with torch.cuda.stream(stream):
                for page in chunk.pages.tolist():
                    self.landing[page].copy_(self.kv_pool[page], non_blocking=True)
            stream.synchronize()
            if chunk.last:
                self.done.put(chunk.request_id)

    def close(self):
        self.inbox.put(None)
        self.thread.join()


class PrefillScheduler:
    def __init__(self, model, kv_pool, sender, page_size):
        self.model = model
        self.kv_pool = kv_pool
        self.sender = sender
        self.page_size = page_size
        self.forward_stream = torch.cuda.Stream()
        self.cached = {}

    def _send_cached_prefix(self, req):
        pages = self.cached.get(req["prefix"])
        if pages is not None:
            self.sender.submit(TransferChunk(req["id"], pages, last=False))
        return pages

    @torch.inference_mode()
    def _forward(self, req):
        self.forward_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.forward_stream):
            kv = self.model(req["tokens"])
            pages = req["pages_gpu"]
            self.kv_pool[pages] = kv.view(len(req["pages"]), self.page_size, -1)
            finished = torch.cuda.Event()
            finished.record()
        return finished

    def run_batch(self, req):
        self._send_cached_prefix(req)
        finished = self._forward(req)
        self.cached[req["prefix"]] = req["pages"]
        return req, finished

    def event_loop(self, requests):
        previous = None
        for req in requests:
            current = self.run_batch(req)
            if previous is not None:
                self._process_result(*previous)
            previous = current
        if previous is not None:
            self._process_result(*previous)

    def _process_result(self, req, finished):
        finished.synchronize()
        self.sender.submit(TransferChunk(req["id"], req["pages"], last=True))


def main(requests, width=1024, pages=2048, page_size=64):
    model = torch.nn.Sequential(
        torch.nn.Embedding(32000, width), torch.nn.Linear(width, width)).cuda(0)
    kv_pool = torch.zeros(pages, page_size, width, device="cuda:0")
    landing = torch.zeros(pages, page_size, width, device="cuda:1")
    torch.cuda.synchronize(1)
    sender = PageSender(kv_pool, landing, 0)
    PrefillScheduler(model, kv_pool, sender, page_size).event_loop(requests)
    sender.close()
    return landing
