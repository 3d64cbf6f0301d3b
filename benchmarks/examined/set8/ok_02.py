from dataclasses import dataclass, field

import torch


@dataclass
class OffloadStepMetadata:
    load_event: int = -1
    load_cpu_blocks: list = field(default_factory=list)
    load_gpu_blocks: list = field(default_factory=list)
    store_event: int = -1
    store_gpu_blocks: list = field(default_factory=list)
    store_cpu_blocks: list = field(default_factory=list)


class SimpleCPUOffloadWorker:

    def __init__(self, gpu_kv_caches, num_cpu_blocks, device):
        self.device = device
        self.gpu_kv_caches = gpu_kv_caches
        self.cpu_kv_caches = {
            name: torch.zeros((num_cpu_blocks, *t.shape[1:]), dtype=t.dtype,
                              device="cpu", pin_memory=True)
            for name, t in gpu_kv_caches.items()
        }
        self.load_stream = torch.cuda.Stream(device=device)
        self.store_stream = torch.cuda.Stream(device=device)
        self._load_events = []
        self._store_events = []
        self._compute_done = torch.cuda.Event()

    def _copy_blocks(self, src_caches, dst_caches, src_ids, dst_ids, stream,
                     event_idx, events_list, wait_event=None):
        with torch.cuda.stream(stream):
            if wait_event is not None:
                stream.wait_event(wait_event)
            for name, src in src_caches.items():
                dst = dst_caches[name]
                for s, d in zip(src_ids, dst_ids):
                    dst[d].copy_(src[s], non_blocking=True)
            event = torch.cuda.Event()
            event.record(stream)
        events_list.append((event_idx, event))

    def _poll(self, events_list):
        finished = set()
        while events_list and events_list[0][1].query():
            finished.add(events_list.pop(0)[0])
        return finished

    def get_finished(self, metadata: OffloadStepMetadata):
        """Called after the forward of this step was enqueued."""
        if metadata.load_gpu_blocks or metadata.store_gpu_blocks:
            self._compute_done.record(torch.cuda.current_stream(self.device))

        if metadata.load_gpu_blocks:
            self._copy_blocks(
                self.cpu_kv_caches, self.gpu_kv_caches,
                metadata.load_cpu_blocks, metadata.load_gpu_blocks,
                self.load_stream, metadata.load_event, self._load_events,
                wait_event=self._compute_done,
            )

        if metadata.store_gpu_blocks:
            self._copy_blocks(
                self.gpu_kv_caches, self.cpu_kv_caches,
                metadata.store_gpu_blocks, metadata.store_cpu_blocks,
                self.store_stream, metadata.store_event, self._store_events,
                wait_event=self._compute_done,
            )

        return self._poll(self._store_events), self._poll(self._load_events)


class ModelRunner:

    def __init__(self, model, worker):
        self.model = model
        self.worker = worker

    def execute_model(self, input_ids, block_table, metadata):
        hidden = self.model(input_ids, block_table, self.worker.gpu_kv_caches)
        finished = self.worker.get_finished(metadata)
        return hidden, finished
