"""Asynchronous hand-over of diffusion outputs to shared memory: the copy runs on a stream of its own."""
import queue
import threading
from dataclasses import dataclass
from multiprocessing import shared_memory
from typing import Callable, Optional

import numpy as np
import torch


@dataclass
class _Transfer:
    request_id: str
    source: torch.Tensor
    host: torch.Tensor
    copied: torch.cuda.Event


class AsyncOutputWriter:
    def __init__(self, device: torch.device, on_ready: Callable[[str, str, tuple], None]):
        self.device = device
        self.on_ready = on_ready
        self.copy_stream = torch.cuda.Stream(device)
        self._queue: "queue.Queue[Optional[_Transfer]]" = queue.Queue()
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def submit(self, request_id: str, output: torch.Tensor) -> None:
        """Called on the engine thread, right after the last kernel of the request was enqueued."""
        produced = torch.cuda.Event()
        produced.record(torch.cuda.current_stream(self.device))
        host = torch.empty(output.shape, dtype=output.dtype, pin_memory=True)
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(produced)
            host.copy_(output, non_blocking=True)
            copied = self.copy_stream.record_event()
        # the transfer keeps ``output`` alive until the copy is over
        self._queue.put(_Transfer(request_id, output, host, copied))

    def _drain(self) -> None:
        torch.cuda.set_device(self.device)
        while True:
            transfer = self._queue.get()
            if transfer is None:
                return
            transfer.copied.synchronize()
            array = transfer.host.numpy()
            shm = shared_memory.SharedMemory(create=True, size=array.nbytes)
            np.ndarray(array.shape, array.dtype, buffer=shm.buf)[...] = array
            self.on_ready(transfer.request_id, shm.name, array.shape)
            shm.close()

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()


class DiffusionEngine:
    def __init__(self, pipeline, device: torch.device, on_ready: Callable[[str, str, tuple], None]):
        self.pipeline = pipeline
        self.writer = AsyncOutputWriter(device, on_ready)

    @torch.inference_mode()
    def step(self, requests) -> None:
        for request in requests:
            latents = self.pipeline.denoise(request)
            image = self.pipeline.vae_decode(latents).clamp(0, 1).mul(255).to(torch.uint8)
            self.writer.submit(request.request_id, image)
