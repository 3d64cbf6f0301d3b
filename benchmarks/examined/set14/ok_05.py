from collections import deque
from dataclasses import dataclass

import torch


@dataclass
class Transfer:
    job_id: int
    stream: torch.cuda.Stream
    end_event: torch.cuda.Event


class SingleDirectionOffloadingHandler:
    def __init__(self, src_tensors, dst_tensors, gpu_to_cpu):
        self.src_tensors = src_tensors
        self.dst_tensors = dst_tensors
        self.gpu_to_cpu = gpu_to_cpu
        self._transfers = deque()
        self._stream_pool = []
        self._event_pool = []

    def transfer_async(self, job_id, src_blocks, dst_blocks):
        stream = self._stream_pool.pop() if self._stream_pool else torch.cuda.Stream()
        end_event = self._event_pool.pop() if self._event_pool else torch.cuda.Event()
        stream.wait_stream(torch.cuda.current_stream())
        if self._transfers:
            stream.wait_event(self._transfers[-1].end_event)
        with torch.cuda.stream(stream):
            for src, dst in zip(self.src_tensors, self.dst_tensors):
                for s, d in zip(src_blocks, dst_blocks):
                    dst[d].copy_(src[s], non_blocking=True)
            end_event.record(stream)
        self._transfers.append(Transfer(job_id, stream, end_event))

    def get_finished(self):
        finished = []
        while self._transfers and self._transfers[0].end_event.query():
            transfer = self._transfers.popleft()
            finished.append(transfer.job_id)
            self._stream_pool.append(transfer.stream)
            self._event_pool.append(transfer.end_event)
        return finished

    def wait(self):
        while self._transfers:
            self._transfers[0].end_event.synchronize()
            self.get_finished()


class GpuBlockPool:
    def __init__(self, caches, num_blocks):
        self.caches = caches
        self.free = deque(range(num_blocks))

    def allocate(self, count):
        blocks = [self.free.popleft() for _ in range(count)]
        index = torch.tensor(blocks, device=self.caches[0].device)
        for cache in self.caches:
            cache.index_fill_(0, index, 0)
        return blocks

    def release(self, blocks):
        self.free.extend(blocks)


class OffloadingWorker:
    def __init__(self, layers, num_gpu, num_cpu, block_shape, dtype=torch.float16):
        self.gpu = [torch.zeros((num_gpu, *block_shape), dtype=dtype, device="cuda") for _ in range(layers)]
        self.cpu = [torch.zeros((num_cpu, *block_shape), dtype=dtype, pin_memory=True) for _ in range(layers)]
        self.pool = GpuBlockPool(self.gpu, num_gpu)
        self.store_handler = SingleDirectionOffloadingHandler(self.gpu, self.cpu, gpu_to_cpu=True)
        self.load_handler = SingleDirectionOffloadingHandler(self.cpu, self.gpu, gpu_to_cpu=False)

    def store(self, job_id, gpu_blocks, cpu_blocks):
        self.store_handler.transfer_async(job_id, gpu_blocks, cpu_blocks)
        self.store_handler.wait()
        self.pool.release(gpu_blocks)

    def load(self, job_id, cpu_blocks):
        gpu_blocks = self.pool.allocate(len(cpu_blocks))
        self.load_handler.transfer_async(job_id, cpu_blocks, gpu_blocks)
        self.load_handler.wait()
        return gpu_blocks
