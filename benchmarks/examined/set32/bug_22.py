"""Two-level page cache: device pages are written back to page-locked host pages,
host pages are filled from storage ahead of use."""
from collections import OrderedDict
from dataclasses import dataclass
from typing import Optional

import numpy as np
import torch

PAGE = 1 << 20


@dataclass
class HostNode:
    key: str
    page: int
    ack: Optional[torch.cuda.Event] = None


class HostTier:
    def __init__(self, pages):
        self.data = torch.empty(pages, PAGE, dtype=torch.uint8, pin_memory=True)
        self.view = self.data.numpy()
        self.free = list(range(pages))
        self.nodes = OrderedDict()

    def evict_one(self):
        _, node = self.nodes.popitem(last=False)
        self.free.append(node.page)
        return node

    def touch(self, key):
        self.nodes.move_to_end(key)


class PageCache:
    def __init__(self, storage, device_pages, host_pages, device="cuda"):
        self.storage = storage
        self.device = torch.device(device)
        self.pages = torch.zeros(device_pages, PAGE, dtype=torch.uint8, device=self.device)
        self.host = HostTier(host_pages)
        self.write_stream = torch.cuda.Stream(self.device)
        self.load_stream = torch.cuda.Stream(self.device)
        self.pending = []
        torch.cuda.synchronize(self.device)

    def _take_page(self):
        if not self.host.free:
            self.host.evict_one()
        return self.host.free.pop()

    def write_back(self, key, device_page):
        page = self._take_page()
        node = HostNode(key, page, torch.cuda.Event())
        self.write_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.write_stream):
            self.host.data[page].copy_(self.pages[device_page], non_blocking=True)
            node.ack.record()
        self.host.nodes[key] = node
        self.pending.append((node, device_page))

    def drain_acks(self, wait=False):
        released, rest = [], []
        for node, device_page in self.pending:
            if wait:
                node.ack.synchronize()
            if node.ack.query():
                released.append(device_page)
            else:
                rest.append((node, device_page))
        self.pending = rest
        return released

    def prefetch(self, key):
        """Bring one page from storage into the host tier."""
        if key in self.host.nodes:
            self.host.touch(key)
            return
        page = self._take_page()
        raw = np.frombuffer(self.storage.read(key), dtype=np.uint8)
        self.host.view[page, : raw.size] = raw
        self.host.nodes[key] = HostNode(key, page)

    def load(self, key, device_page):
        node = self.host.nodes[key]
        self.host.touch(key)
        if node.ack is not None:
            node.ack.synchronize()
        self.load_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.load_stream):
            self.pages[device_page].copy_(self.host.data[node.page], non_blocking=True)
        self.load_stream.synchronize()


def make_room(cache, victims, wanted):
    for key, device_page in victims:
        cache.write_back(key, device_page)
    for key in wanted:
        cache.prefetch(key)
    return cache.drain_acks(wait=True)
