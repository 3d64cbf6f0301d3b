import queue
import threading
from dataclasses import dataclass
from typing import List, Optional

import torch


@dataclass
class MemoryObj:
    tensor: torch.Tensor
    address: int
    ref_count: int = 1

    def ref_count_down(self):
        self.ref_count -= 1


class VLLMPagedMemGPUConnectorV2:
    """KV_2LTD format: [2, num_layers, num_tokens, hidden_dim]."""

    def __init__(self, hidden_dim_size: int, num_layers: int, chunk_size: int, dtype, device):
        self.hidden_dim_size = hidden_dim_size
        self.num_layers = num_layers
        self.store_stream = torch.cuda.Stream(device)
        self.load_stream = torch.cuda.Stream(device)
        self.gpu_buffer = torch.empty((2, num_layers, chunk_size, hidden_dim_size), dtype=dtype, device=device)

    def from_gpu(self, memory_obj: MemoryObj, start: int, end: int, kvcaches, slot_mapping):
        assert memory_obj.tensor is not None
        self.store_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.store_stream):
            slots = slot_mapping[start:end]
            tmp = self.gpu_buffer[:, :, : end - start]
            for layer_id, (k, v) in enumerate(kvcaches):
                torch.index_select(k.view(-1, self.hidden_dim_size), 0, slots, out=tmp[0, layer_id])
                torch.index_select(v.view(-1, self.hidden_dim_size), 0, slots, out=tmp[1, layer_id])
            memory_obj.tensor.copy_(tmp, non_blocking=True)
        if not memory_obj.tensor.is_cuda:
            self.store_stream.synchronize()

    def batched_from_gpu(self, memory_objs, starts, ends, **kwargs):
        for memory_obj, start, end in zip(memory_objs, starts, ends):
            self.from_gpu(memory_obj, start, end, **kwargs)


class PDBackend:
    """Pushes chunks into the decoder with one-sided RDMA writes."""

    def __init__(self, nixl_agent, remote_peer: str):
        self.nixl_agent = nixl_agent
        self.remote_peer = remote_peer
        self._tasks: "queue.Queue[Optional[List[MemoryObj]]]" = queue.Queue()
        self._worker = threading.Thread(target=self._nixl_worker_loop, daemon=True)
        self._worker.start()

    def batched_submit_put_task(self, memory_objs: List[MemoryObj]):
        self._tasks.put(memory_objs)

    def _nixl_worker_loop(self):
        while (memory_objs := self._tasks.get()) is not None:
            descs = [(m.address, m.tensor.nbytes, 0) for m in memory_objs]
            xfer_descs = self.nixl_agent.get_xfer_descs(descs, mem_type="cuda")
            handle = self.nixl_agent.initialize_xfer("WRITE", xfer_descs, xfer_descs, self.remote_peer)
            self.nixl_agent.transfer(handle)
            while self.nixl_agent.check_xfer_state(handle) != "DONE":
                pass
            for m in memory_objs:
                m.ref_count_down()


class LMCacheEngine:
    def __init__(self, gpu_connector: VLLMPagedMemGPUConnectorV2, allocator, backend: PDBackend, chunk_size=256):
        self.gpu_connector = gpu_connector
        self.allocator = allocator
        self.backend = backend
        self.chunk_size = chunk_size

    def store(self, num_tokens: int, kvcaches, slot_mapping):
        starts = list(range(0, num_tokens, self.chunk_size))
        ends = [min(s + self.chunk_size, num_tokens) for s in starts]
        memory_objs = [self.allocator.allocate(e - s) for s, e in zip(starts, ends)]
        self.gpu_connector.batched_from_gpu(memory_objs, starts, ends, kvcaches=kvcaches, slot_mapping=slot_mapping)
        self.backend.batched_submit_put_task(memory_objs)
