"""Two-level prefix cache: device pages in front, a pinned host pool behind."""
from dataclasses import dataclass, field

import torch

PAGE_ELEMS = 256 * 1024


class HostPool:
    def __init__(self, pages):
        self.buf = torch.empty(pages, PAGE_ELEMS, dtype=torch.float16, pin_memory=True)
        self.free = list(range(pages))

    def alloc(self):
        return self.free.pop()

    def release(self, slot):
        self.free.append(slot)


class DevicePool:
    def __init__(self, pages):
        self.buf = torch.zeros(pages, PAGE_ELEMS, dtype=torch.float16, device="cuda")
        self.free = list(range(pages))


@dataclass
class Node:
    key: str
    device_page: int | None = None
    host_slot: int | None = None
    children: list = field(default_factory=list)


class CacheController:
    """Issues the copies between the two pools."""

    def __init__(self, dev, host):
        self.dev = dev
        self.host = host
        self.write_stream = torch.cuda.Stream()
        self.load_stream = torch.cuda.Stream()

    def write(self, page, slot):
        done = torch.cuda.Event()
        self.write_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.write_stream):
            self.host.buf[slot].copy_(self.dev.buf[page], non_blocking=True)
            done.record()
        return done

    def load(self, slot, page):
        done = torch.cuda.Event()
        self.load_stream.wait_stream(torch.cuda.current_stream())
        self.load_stream.wait_stream(self.write_stream)
        with torch.cuda.stream(self.load_stream):
            self.dev.buf[page].copy_(self.host.buf[slot], non_blocking=True)
            done.record()
        return done


class PrefixCache:
    def __init__(self, dev_pages=64, host_pages=16):
        self.dev = DevicePool(dev_pages)
        self.host = HostPool(host_pages)
        self.ctl = CacheController(self.dev, self.host)
        self.nodes = {}

    def insert(self, key, fill):
        node = self.nodes[key] = Node(key, device_page=self.dev.free.pop())
        self.dev.buf[node.device_page].fill_(fill)
        return node

    def backup(self, node):
        node.host_slot = self.host.alloc()
        done = self.ctl.write(node.device_page, node.host_slot)
        torch.cuda.current_stream().wait_event(done)
        self.dev.free.append(node.device_page)
        node.device_page = None

    def load_back(self, node):
        node.device_page = self.dev.free.pop()
        done = self.ctl.load(node.host_slot, node.device_page)
        self.host.release(node.host_slot)
        node.host_slot = None
        return done

    def match(self, key):
        node = self.nodes[key]
        if node.device_page is None:
            return node, self.load_back(node)
        return node, None


def main():
    cache = PrefixCache()
    for i in range(12):
        cache.backup(cache.insert(f"old{i}", float(i)))
    torch.cuda.synchronize()
    checks = []
    for i in range(12):
        node, loaded = cache.match(f"old{i}")
        fresh = cache.insert(f"new{i}", 100.0 + i)
        cache.backup(fresh)
        if loaded is not None:
            torch.cuda.current_stream().wait_event(loaded)
        checks.append(cache.dev.buf[node.device_page].float().mean())
    print(torch.stack(checks).cpu().tolist())


if __name__ == "__main__":
    main()
