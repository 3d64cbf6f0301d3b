"""External KV store connector: page copies on the compute stream, loads from a background thread."""
import queue
import threading
from dataclasses import dataclass, field

import torch


@dataclass
class LoadRequest:
    req_id: str
    key: str
    page: int
    start: int
    num_bytes: int
    done: threading.Event = field(default_factory=threading.Event)


class StoreClient:
    def __init__(self, objects):
        self.objects = objects

    def get_into(self, key, buffer, num_bytes):
        payload = self.objects[key]
        buffer.numpy()[:num_bytes] = payload[:num_bytes]


class KVRecvThread(threading.Thread):
    def __init__(self, client, kv_pages):
        super().__init__(daemon=True)
        self.client = client
        self.kv_pages = kv_pages
        self.requests = queue.Queue()
        self.stream = torch.cuda.Stream()
        self.bounce = torch.empty(kv_pages.shape[1], dtype=torch.uint8, pin_memory=True)

    def add_request(self, request):
        self.requests.put(request)

    def run(self):
        torch.cuda.set_device(self.kv_pages.device)
        while True:
            request = self.requests.get()
            if request is None:
                return
            n = request.num_bytes
            self.client.get_into(request.key, self.bounce, n)
            with torch.cuda.stream(self.stream):
                page = self.kv_pages[request.page]
                page[request.start : request.start + n].copy_(self.bounce[:n], non_blocking=True)
            self.stream.synchronize()
            request.done.set()


class ModelRunner:
    def __init__(self, num_pages, page_bytes, client):
        self.kv_pages = torch.zeros(num_pages, page_bytes, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        self.receiver = KVRecvThread(client, self.kv_pages)
        self.receiver.start()
        self.pending = {}

    def copy_pages(self, pairs):
        for src, dst in pairs:
            self.kv_pages[dst].copy_(self.kv_pages[src])

    def start_load_kv(self, loads):
        for request in loads:
            self.pending[request.req_id] = request
            self.receiver.add_request(request)

    def wait_for_loads(self, req_ids):
        for req_id in req_ids:
            self.pending.pop(req_id).done.wait()

    def attention(self, page, query):
        keys = self.kv_pages[page].view(torch.float16).view(-1, query.shape[-1])
        return torch.softmax(query @ keys.t(), -1) @ keys

    def execute_model(self, scheduler_output, query):
        self.copy_pages(scheduler_output["page_copies"])
        self.start_load_kv(scheduler_output["loads"])
        outputs = {p: self.attention(p, query) for p in scheduler_output["resident_pages"]}
        self.wait_for_loads([r.req_id for r in scheduler_output["loads"]])
        for request in scheduler_output["loads"]:
            outputs[request.page] = self.attention(request.page, query)
        return outputs


def main(objects, steps):
    runner = ModelRunner(512, 1 << 20, StoreClient(objects))
    query = torch.randn(8, 128, device="cuda", dtype=torch.float16)
    for step in steps:
        out = runner.execute_model(
            {
                "page_copies": step["cow"],
                "loads": [LoadRequest(r, k, p, s, n) for r, k, p, s, n in step["loads"]],
                "resident_pages": step["resident"],
            },
            query,
        )
        print({p: o.float().norm().item() for p, o in out.items()})
    runner.receiver.add_request(None)
