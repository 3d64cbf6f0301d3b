"""Embedding server worker: pooled outputs are handed to an output thread while the next batch runs."""
import queue
import threading

import torch
import torch.nn.functional as F


class AsyncPoolingOutput:
    def __init__(self, req_ids, pooled, finished, copy_stream):
        self.req_ids = req_ids
        self._finished = finished
        self._ready = torch.cuda.Event()
        self._pooled_cpu = [None] * len(pooled)
        compute = torch.cuda.current_stream()
        with torch.cuda.stream(copy_stream):
            copy_stream.wait_stream(compute)
            self._ready.record(copy_stream)
            for i, t in enumerate(pooled):
                if self._finished[i]:
                    self._pooled_cpu[i] = t.to("cpu", non_blocking=True)
                    t.record_stream(copy_stream)

    def get_output(self):
        self._ready.synchronize()
        return {
            rid: out.tolist()
            for rid, out in zip(self.req_ids, self._pooled_cpu)
            if out is not None
        }


class Pooler:
    def __init__(self, normalize=True):
        self.normalize = normalize

    def __call__(self, hidden, lens):
        outputs = []
        for chunk in hidden.split(lens):
            vec = chunk[-1].float()
            outputs.append(F.normalize(vec, dim=-1) if self.normalize else vec)
        return outputs


class PoolingModelRunner:
    def __init__(self, model, device):
        self.model = model.to(device).eval()
        self.device = torch.device(device)
        self.pooler = Pooler()
        self.copy_stream = torch.cuda.Stream(self.device)

    @torch.inference_mode()
    def execute(self, batch):
        ids = torch.cat([r.token_ids for r in batch]).pin_memory()
        lens = [r.token_ids.numel() for r in batch]
        hidden = self.model(ids.to(self.device, non_blocking=True))
        pooled = self.pooler(hidden, lens)
        finished = [r.is_last_chunk for r in batch]
        return AsyncPoolingOutput([r.req_id for r in batch], pooled, finished, self.copy_stream)


class OutputThread(threading.Thread):
    def __init__(self, deliver):
        super().__init__(daemon=True)
        self.deliver = deliver
        self.items = queue.Queue()

    def run(self):
        while (item := self.items.get()) is not None:
            for req_id, embedding in item.get_output().items():
                self.deliver(req_id, embedding)


def serve(runner, scheduler, deliver):
    outputs = OutputThread(deliver)
    outputs.start()
    while (batch := scheduler.next_batch()) is not None:
        outputs.items.put(runner.execute(batch))
    outputs.items.put(None)
    outputs.join()
