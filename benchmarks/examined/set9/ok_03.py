from dataclasses import dataclass, field

import torch


@dataclass
class SimpleCPUOffloadMetadata:
    load_event: int = -1
    load_gpu_blocks: list[int] = field(default_factory=list)
    load_cpu_blocks: list[int] = field(default_factory=list)
    load_event_to_reqs: dict[int, list[str]] = field(default_factory=dict)
    store_event: int = -1
    store_gpu_blocks: list[int] = field(default_factory=list)
    store_cpu_blocks: list[int] = field(default_factory=list)


class DmaCopyBackend:
    def init(self, gpu_caches, cpu_caches, load_stream, store_stream):
        self._gpu_caches = gpu_caches
        self._cpu_caches = cpu_caches
        self._load_stream = load_stream
        self._store_stream = store_stream

    def launch_copy(self, src_blocks, dst_blocks, is_store, event_idx, events_list, wait_event=None):
        stream = self._store_stream if is_store else self._load_stream
        src_caches = self._gpu_caches if is_store else self._cpu_caches
        dst_caches = self._cpu_caches if is_store else self._gpu_caches
        with torch.cuda.stream(stream):
            if wait_event is not None:
                stream.wait_event(wait_event)
            for name, src in src_caches.items():
                for s, d in zip(src_blocks, dst_blocks):
                    dst_caches[name][d].copy_(src[s], non_blocking=True)
            event = torch.cuda.Event()
            event.record(stream)
        events_list.append((event_idx, event))


class SimpleCPUOffloadWorker:
    def __init__(self, gpu_kv_caches: dict[str, torch.Tensor], num_cpu_blocks: int):
        self.gpu_kv_caches = gpu_kv_caches
        self.cpu_kv_caches = {
            name: torch.zeros((num_cpu_blocks,) + t.shape[1:], dtype=t.dtype, pin_memory=True)
            for name, t in gpu_kv_caches.items()
        }
        low_pri, _ = torch.cuda.Stream.priority_range()
        self.load_stream = torch.cuda.Stream(priority=low_pri)
        self.store_stream = torch.cuda.Stream(priority=low_pri)
        self._backend = DmaCopyBackend()
        self._backend.init(self.gpu_kv_caches, self.cpu_kv_caches, self.load_stream, self.store_stream)
        self._load_events: list[tuple[int, torch.cuda.Event]] = []
        self._store_events: list[tuple[int, torch.cuda.Event]] = []
        self._pending_loads: set[int] = set()
        self._compute_done = torch.cuda.Event()

    def get_finished(self, metadata: SimpleCPUOffloadMetadata):
        if metadata.load_cpu_blocks or metadata.store_gpu_blocks:
            self._compute_done.record(torch.cuda.current_stream())
        if metadata.load_cpu_blocks:
            self._pending_loads.add(metadata.load_event)
            self._backend.launch_copy(
                metadata.load_cpu_blocks,
                metadata.load_gpu_blocks,
                is_store=False,
                event_idx=metadata.load_event,
                events_list=self._load_events,
                wait_event=self._compute_done,
            )
        if metadata.store_gpu_blocks:
            self._backend.launch_copy(
                metadata.store_gpu_blocks,
                metadata.store_cpu_blocks,
                is_store=True,
                event_idx=metadata.store_event,
                events_list=self._store_events,
                wait_event=self._compute_done,
            )
        finished_recving = set()
        while self._load_events and self._load_events[0][1].query():
            event_idx, _ = self._load_events.pop(0)
            self._pending_loads.discard(event_idx)
            finished_recving.update(metadata.load_event_to_reqs.get(event_idx, ()))
        while self._store_events and self._store_events[0][1].query():
            self._store_events.pop(0)
        return finished_recving


class GPUModelRunner:
    def __init__(self, model, worker: SimpleCPUOffloadWorker):
        self.model = model
        self.worker = worker

    @torch.inference_mode()
    def execute_model(self, input_ids, block_table, metadata: SimpleCPUOffloadMetadata):
        hidden = self.model(input_ids, block_table, self.worker.gpu_kv_caches)
        finished = self.worker.get_finished(metadata)
        return hidden, finished
