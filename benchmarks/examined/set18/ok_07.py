"""Inference server worker: separate threads for H2D, compute and D2H, each with its own stream."""
import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import torch


class BackendWorker:
    """Requests are (batch on the host, request time); responses carry host tensors."""

    def __init__(self, model, request_queue, response_queue, batch_shape, device, slots=2):
        self.model = model.eval().to(device)
        self.device = device
        self.request_queue = request_queue
        self.response_queue = response_queue
        self.h2d_stream = torch.cuda.Stream(device)
        self.d2h_stream = torch.cuda.Stream(device)
        self.h2d_pool = ThreadPoolExecutor(max_workers=1)
        self.d2h_pool = ThreadPoolExecutor(max_workers=1)
        self.inputs = [torch.empty(batch_shape, device=device) for _ in range(slots)]
        self.h2d_stream.wait_stream(torch.cuda.current_stream(device))
        self.copied = [torch.cuda.Event() for _ in range(slots)]
        self.computed = [torch.cuda.Event() for _ in range(slots)]
        self.free_slots = queue.Queue()
        for s in range(slots):
            self.free_slots.put(s)
        self._stop = threading.Event()

    def _copy_in(self, slot, data):
        with torch.cuda.device(self.device), torch.cuda.stream(self.h2d_stream):
            self.h2d_stream.wait_event(self.computed[slot])
            self.inputs[slot].copy_(data, non_blocking=True)
            self.copied[slot].record(self.h2d_stream)
        return slot

    def _respond(self, out, ready, request_time):
        with torch.cuda.device(self.device), torch.cuda.stream(self.d2h_stream):
            self.d2h_stream.wait_event(ready)
            host = torch.empty(out.shape, dtype=out.dtype, pin_memory=True)
            host.copy_(out, non_blocking=True)
            out.record_stream(self.d2h_stream)
            arrived = torch.cuda.Event()
            arrived.record(self.d2h_stream)
        arrived.synchronize()
        self.response_queue.put((host, request_time))

    def _compute(self, slot):
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(self.copied[slot])
        with torch.inference_mode():
            out = self.model(self.inputs[slot])
        self.computed[slot].record(stream)
        ready = torch.cuda.Event()
        ready.record(stream)
        self.free_slots.put(slot)
        return out, ready

    def run(self):
        torch.cuda.set_device(self.device)
        staged = None
        while not self._stop.is_set() or staged is not None:
            upcoming = None
            if not self._stop.is_set():
                try:
                    data, request_time = self.request_queue.get(timeout=0.05)
                except queue.Empty:
                    data = None
                if data is not None:
                    slot = self.free_slots.get()
                    future = self.h2d_pool.submit(self._copy_in, slot, data.pin_memory())
                    upcoming = (future, request_time)
            if staged is not None:
                future, staged_time = staged
                out, ready = self._compute(future.result())
                self.d2h_pool.submit(self._respond, out, ready, staged_time)
            staged = upcoming
        self.d2h_pool.shutdown(wait=True)
        self.h2d_pool.shutdown(wait=True)

    def stop(self):
        self._stop.set()
