import logging
import queue
import threading

import numpy as np
import torch

log = logging.getLogger(__name__)


class Slab:
    def __init__(self, in_elems: int, out_elems: int):
        self.inp = torch.empty(in_elems, dtype=torch.float32, pin_memory=True)
        self.out = torch.empty(out_elems, dtype=torch.float32, pin_memory=True)


class SlabPool:
    def __init__(self, count: int, in_elems: int, out_elems: int):
        self._free = queue.SimpleQueue()
        for _ in range(count):
            self._free.put(Slab(in_elems, out_elems))

    def acquire(self) -> Slab:
        return self._free.get()

    def release(self, slab: Slab) -> None:
        self._free.put(slab)


class ModelInstance:
    """One model copy with its own stream; requests come from a scheduler thread."""

    def __init__(self, model, pool: SlabPool, device="cuda:0"):
        self.device = torch.device(device)
        self.model = model.to(self.device).eval()
        self.pool = pool
        self.stream = torch.cuda.Stream(self.device)

    @torch.inference_mode()
    def execute(self, array: np.ndarray) -> dict:
        slab = self.pool.acquire()
        try:
            n = array.size
            slab.inp[:n].numpy()[:] = array.reshape(-1)
            with torch.cuda.stream(self.stream):
                x = slab.inp[:n].to(self.device, non_blocking=True).view(array.shape)
                y = self.model(x)
                if y.dim() != 2:
                    raise ValueError(f"expected 2-d output, got {tuple(y.shape)}")
                flat = y.reshape(-1)
                slab.out[: flat.numel()].copy_(flat, non_blocking=True)
            self.stream.synchronize()
            return {"output": slab.out[: flat.numel()].numpy().reshape(y.shape).copy()}
        except (RuntimeError, ValueError) as exc:
            log.warning("request failed: %s", exc)
            return {"error": str(exc)}
        finally:
            self.pool.release(slab)


class Scheduler(threading.Thread):
    def __init__(self, instance: ModelInstance):
        super().__init__(daemon=True)
        self.instance = instance
        self.inbox: "queue.Queue" = queue.Queue()

    def submit(self, array: np.ndarray) -> "queue.Queue":
        reply: "queue.Queue" = queue.Queue(1)
        self.inbox.put((array, reply))
        return reply

    def run(self):
        while True:
            array, reply = self.inbox.get()
            reply.put(self.instance.execute(array))
