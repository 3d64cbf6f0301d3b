from collections import namedtuple
from typing import List

import torch

HiCacheAck = namedtuple("HiCacheAck", ["start_event", "finish_event", "node_ids"])


class CacheOperation:
    def __init__(self, host_pages: List[int], device_pages: List[int], node_id: int):
        self.host_pages = host_pages
        self.device_pages = device_pages
        self.node_ids = [node_id]


class TokenToKVPool:
    def __init__(self, layer_num, num_pages, page_size, head_num, head_dim, device):
        shape = (layer_num, num_pages, page_size, head_num, head_dim)
        self.k_buffer = torch.empty(shape, dtype=torch.bfloat16, device=device)
        self.v_buffer = torch.empty(shape, dtype=torch.bfloat16, device=device)
        self.free_pages = list(range(num_pages))

    def alloc(self, n: int) -> List[int]:
        pages, self.free_pages = self.free_pages[:n], self.free_pages[n:]
        return pages

    def free(self, pages: List[int]):
        self.free_pages = pages + self.free_pages

    def set_kv(self, layer_id: int, page: int, k: torch.Tensor, v: torch.Tensor):
        self.k_buffer[layer_id, page].copy_(k)
        self.v_buffer[layer_id, page].copy_(v)


class HiCacheController:
    def __init__(self, device_pool: TokenToKVPool, host_pages: int):
        self.device_pool = device_pool
        shape = (device_pool.k_buffer.shape[0], host_pages) + device_pool.k_buffer.shape[2:]
        self.host_k = torch.empty(shape, dtype=torch.bfloat16, pin_memory=True)
        self.host_v = torch.empty(shape, dtype=torch.bfloat16, pin_memory=True)
        self.host_free = list(range(host_pages))
        self.write_stream = torch.cuda.Stream()
        self.write_queue: List[CacheOperation] = []
        self.ack_write_queue: List[HiCacheAck] = []

    def write(self, device_pages: List[int], node_id: int):
        host_pages = [self.host_free.pop() for _ in device_pages]
        self.write_queue.append(CacheOperation(host_pages, device_pages, node_id))
        self.start_writing()
        return host_pages

    def start_writing(self):
        start_event, finish_event = torch.cuda.Event(), torch.cuda.Event()
        node_ids = []
        start_event.record()
        with torch.cuda.stream(self.write_stream):
            start_event.wait(self.write_stream)
            for op in self.write_queue:
                for layer_id in range(self.host_k.shape[0]):
                    for h, d in zip(op.host_pages, op.device_pages):
                        self.host_k[layer_id, h].copy_(self.device_pool.k_buffer[layer_id, d], non_blocking=True)
                        self.host_v[layer_id, h].copy_(self.device_pool.v_buffer[layer_id, d], non_blocking=True)
                node_ids.extend(op.node_ids)
            finish_event.record()
        self.write_queue.clear()
        self.ack_write_queue.append(HiCacheAck(start_event, finish_event, node_ids))


class HiRadixCache:
    def __init__(self, controller: HiCacheController):
        self.controller = controller
        self.backed_up = {}

    def evict_write_back(self, node_id: int, device_pages: List[int]):
        self.backed_up[node_id] = self.controller.write(device_pages, node_id)
        self.controller.device_pool.free(device_pages)

    def writing_check(self):
        while self.controller.ack_write_queue and self.controller.ack_write_queue[0].finish_event.query():
            self.controller.ack_write_queue.pop(0)


def run_batch(pool: TokenToKVPool, tree_cache: HiRadixCache, layers, hidden: torch.Tensor):
    tree_cache.writing_check()
    (page,) = pool.alloc(1)
    for layer_id, layer in enumerate(layers):
        k, v, hidden = layer(hidden)
        pool.set_kv(layer_id, page, k, v)
    return hidden, page
