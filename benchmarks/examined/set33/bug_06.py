"""Second level (CPU) KV cache of a generation backend: pages are brought back before prefill."""
from dataclasses import dataclass
from typing import List, Optional

import torch


@dataclass
class LoadTask:
    req_id: int
    mem_indexes: torch.Tensor
    page_list: List[int]


class PagedKV:
    def __init__(self, layers, tokens, heads, dim, device):
        self.kv = torch.zeros((layers, tokens, 2, heads, dim), dtype=torch.float16, device=device)
        self.free = list(range(tokens))

    def alloc(self, n):
        taken, self.free = self.free[:n], self.free[n:]
        return taken

    def release(self, indexes):
        self.free.extend(indexes)


class CpuPageStore:
    def __init__(self, pages, layers, page_size, heads, dim):
        self.page_size = page_size
        self.pages = torch.zeros((pages, layers, page_size, 2, heads, dim), dtype=torch.float16, pin_memory=True)


class MultiLevelKVCache:
    """Runs in the scheduling loop, whose stream differs from the one used for inference."""

    def __init__(self, layers=32, tokens=16384, heads=8, dim=128, page_size=64, device="cuda:0"):
        self.device = torch.device(device)
        self.gpu = PagedKV(layers, tokens, heads, dim, self.device)
        self.cpu = CpuPageStore(256, layers, page_size, heads, dim)
        self.cpu_kv_cache_stream = torch.cuda.Stream(self.device)
        self.infer_stream = torch.cuda.Stream(self.device)
        self.schedule_stream = torch.cuda.Stream(self.device)
        torch.cuda.synchronize(self.device)

    def _load_pages(self, page_list, mem_indexes):
        size = self.cpu.page_size
        for n, page in enumerate(page_list):
            staged = self.cpu.pages[page].to(self.device, non_blocking=True)
            dst = mem_indexes[n * size : (n + 1) * size]
            self.gpu.kv.index_copy_(1, dst, staged)

    def _start_load_task(self, req_id, page_list, stream) -> Optional[LoadTask]:
        if not page_list:
            return None
        slots = self.gpu.alloc(len(page_list) * self.cpu.page_size)
        mem_indexes = torch.tensor(slots, device=self.device)
        stream.wait_stream(self.infer_stream)
        self._load_pages(page_list, mem_indexes)
        return LoadTask(req_id=req_id, mem_indexes=mem_indexes, page_list=page_list)

    def load_for_prefill(self, requests):
        tasks = []
        with torch.cuda.stream(self.schedule_stream):
            self.schedule_stream.wait_stream(self.infer_stream)
            for req_id, page_list in requests.items():
                task = self._start_load_task(req_id, page_list, self.cpu_kv_cache_stream)
                if task is not None:
                    tasks.append(task)
        self.infer_stream.wait_stream(self.cpu_kv_cache_stream)
        return tasks

    def prefill(self, layer, query, tasks):
        outs = []
        with torch.cuda.stream(self.infer_stream):
            for task in tasks:
                kv = self.gpu.kv[layer, task.mem_indexes]
                key, value = kv[:, 0].transpose(0, 1), kv[:, 1].transpose(0, 1)
                outs.append(torch.nn.functional.scaled_dot_product_attention(query, key, value))
        self.infer_stream.synchronize()
        return outs
