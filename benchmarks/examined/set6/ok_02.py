from dataclasses import dataclass
from typing import List

import torch


@dataclass
class CacheOperation:
    host_indices: torch.Tensor
    device_indices: torch.Tensor
    node_ids: List[int]


@dataclass
class HiCacheAck:
    finish_event: torch.cuda.Event
    node_ids: List[int]


class HostKVCache:
    def __init__(self, device_buffers, size):
        self.device_buffers = device_buffers
        self.kv_buffer = [
            torch.empty((size, *buf.shape[1:]), dtype=buf.dtype, pin_memory=True)
            for buf in device_buffers
        ]

    def backup_from_device_all_layer(self, host_indices, device_indices):
        for host, dev in zip(self.kv_buffer, self.device_buffers):
            for h, d in zip(host_indices.tolist(), device_indices.tolist()):
                host[h].copy_(dev[d], non_blocking=True)


class HiCacheController:
    def __init__(self, mem_pool_host: HostKVCache):
        self.mem_pool_host = mem_pool_host
        self.write_stream = torch.cuda.Stream()
        self.forward_stream = None
        self.write_queue: List[CacheOperation] = []
        self.ack_write_queue: List[HiCacheAck] = []

    def write(self, device_indices, host_indices, node_id):
        self.write_queue.append(CacheOperation(host_indices, device_indices, [node_id]))
        self.start_writing()

    def start_writing(self):
        if not self.write_queue:
            return
        ops, self.write_queue = self.write_queue, []
        start_event = torch.cuda.Event()
        finish_event = torch.cuda.Event()

        start_event.record()
        with torch.cuda.stream(self.write_stream):
            start_event.wait(self.write_stream)
            if self.forward_stream is not None:
                self.write_stream.wait_stream(self.forward_stream)
            for op in ops:
                self.mem_pool_host.backup_from_device_all_layer(
                    op.host_indices, op.device_indices
                )
            finish_event.record()
        nodes = [n for op in ops for n in op.node_ids]
        self.ack_write_queue.append(HiCacheAck(finish_event, nodes))

    def writing_check(self):
        done = []
        while self.ack_write_queue and self.ack_write_queue[0].finish_event.query():
            done.extend(self.ack_write_queue.pop(0).node_ids)
        return done


class Scheduler:
    def __init__(self, model, kv_buffers, host_size):
        self.model = model
        self.kv_buffers = kv_buffers
        self.forward_stream = torch.cuda.Stream()
        self.cache_controller = HiCacheController(HostKVCache(kv_buffers, host_size))
        self.cache_controller.forward_stream = self.forward_stream

    def run_batch(self, batch):
        self.forward_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.forward_stream):
            return self.model(batch.input_ids, self.kv_buffers, batch.out_cache_loc)

    def event_loop_overlap(self, batches, host_indices):
        evictable = []
        for step, batch in enumerate(batches):
            self.run_batch(batch)
            self.cache_controller.write(batch.out_cache_loc_cpu, host_indices[step], step)
            evictable.extend(self.cache_controller.writing_check())
        torch.cuda.synchronize()
        return evictable
