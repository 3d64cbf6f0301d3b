import itertools
from dataclasses import dataclass, field

import torch


class HostKVPool:
    def __init__(self, slots, kv_dim):
        self.data = torch.empty(slots, kv_dim, dtype=torch.float16, pin_memory=True)
        self.free_slots = list(range(slots))

    def alloc(self, n):
        if n > len(self.free_slots):
            return None
        out, self.free_slots = self.free_slots[:n], self.free_slots[n:]
        return out

    def free(self, slots):
        self.free_slots = slots + self.free_slots


@dataclass
class TreeNode:
    device_slots: list
    host_slots: list = None
    lock_ref: int = 0
    host_lock_ref: int = 0
    node_id: int = field(default_factory=itertools.count().__next__)


class CacheController:
    def __init__(self, device_kv, host_pool):
        self.device_kv, self.host_pool = device_kv, host_pool
        self.write_stream = torch.cuda.Stream()
        self.load_stream = torch.cuda.Stream()
        self.ack_write, self.ack_load = [], []

    def write(self, node):
        host_slots = self.host_pool.alloc(len(node.device_slots))
        if host_slots is None:
            return None
        start = torch.cuda.Event()
        start.record()
        with torch.cuda.stream(self.write_stream):
            self.write_stream.wait_event(start)
            for d, h in zip(node.device_slots, host_slots):
                self.host_pool.data[h].copy_(self.device_kv[d], non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        self.ack_write.append((done, node))
        return host_slots

    def load(self, node, device_slots):
        start = torch.cuda.Event()
        start.record()
        with torch.cuda.stream(self.load_stream):
            self.load_stream.wait_event(start)
            for h, d in zip(node.host_slots, device_slots):
                self.device_kv[d].copy_(self.host_pool.data[h], non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        self.ack_load.append((done, node))
        return done


class HiRadixCache:
    def __init__(self, controller, device_slots):
        self.controller = controller
        self.device_free = list(range(device_slots))
        self.backed_up = []

    def write_backup(self, node):
        node.host_slots = self.controller.write(node)
        if node.host_slots is None:
            self.evict_host(len(node.device_slots))
            node.host_slots = self.controller.write(node)
        node.lock_ref += 1
        self.backed_up.append(node)

    def writing_check(self):
        pending = self.controller.ack_write
        while pending and pending[0][0].query():
            pending.pop(0)[1].lock_ref -= 1

    def evict_host(self, need):
        for node in list(self.backed_up):
            if need <= 0:
                break
            if node.host_lock_ref or node.lock_ref or not node.device_slots:
                continue
            self.controller.host_pool.free(node.host_slots)
            need -= len(node.host_slots)
            node.host_slots = None
            self.backed_up.remove(node)

    def load_back(self, node):
        n = len(node.host_slots)
        slots, self.device_free = self.device_free[:n], self.device_free[n:]
        node.host_lock_ref += 1
        done = self.controller.load(node, slots)
        node.device_slots = slots
        node.host_lock_ref -= 1
        return done


def run_batch(cache, attn, reused, fresh):
    done = cache.load_back(reused)
    cache.write_backup(fresh)
    torch.cuda.current_stream().wait_event(done)
    out = attn(cache.controller.device_kv, reused.device_slots + fresh.device_slots)
    cache.writing_check()
    return out
