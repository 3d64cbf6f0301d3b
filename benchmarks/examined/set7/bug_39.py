import ctypes
import threading
from collections import deque
from dataclasses import dataclass
from typing import Callable, Deque, Dict, Optional

import torch

_HOST_FN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _load_cudart() -> ctypes.CDLL:
    for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so"):
        try:
            lib = ctypes.CDLL(name)
        except OSError:
            continue
        lib.cudaLaunchHostFunc.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        lib.cudaLaunchHostFunc.restype = ctypes.c_int
        return lib
    raise RuntimeError("libcudart not found")


_cudart = _load_cudart()


def host_launch(stream: torch.cuda.Stream, fn: Callable[[], None]) -> None:
    """Runs ``fn`` on the host once all work queued on ``stream`` is done."""

    def trampoline(_user_data):
        fn()

    callback = _HOST_FN(trampoline)
    status = _cudart.cudaLaunchHostFunc(
        stream.cuda_stream, ctypes.cast(callback, ctypes.c_void_p), None
    )
    if status != 0:
        raise RuntimeError(f"cudaLaunchHostFunc failed with error {status}")


@dataclass
class Slot:
    index: int
    host: torch.Tensor


class PinnedSlotPool:
    def __init__(self, n: int, numel: int, dtype: torch.dtype):
        self._free: Deque[Slot] = deque(
            Slot(i, torch.empty(numel, dtype=dtype, pin_memory=True)) for i in range(n)
        )
        self._cond = threading.Condition()

    def acquire(self) -> Slot:
        with self._cond:
            self._cond.wait_for(lambda: len(self._free) > 0)
            return self._free.popleft()

    def release(self, slot: Slot) -> None:
        with self._cond:
            self._free.append(slot)
            self._cond.notify()


class Uploader:
    """Uploads host arrays through pinned slots; a slot is free again when its copy is done."""

    def __init__(self, pool: PinnedSlotPool, device: torch.device):
        self.pool = pool
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.uploaded: Dict[str, torch.Tensor] = {}

    def upload(self, name: str, data: torch.Tensor) -> torch.Tensor:
        slot = self.pool.acquire()
        staged = slot.host[: data.numel()]
        staged.copy_(data.view(-1))
        with torch.cuda.stream(self.stream):
            out = staged.to(self.device, non_blocking=True)
        host_launch(self.stream, lambda: self.pool.release(slot))
        self.uploaded[name] = out
        return out

    def finish(self, consumer: Optional[torch.cuda.Stream] = None) -> Dict[str, torch.Tensor]:
        consumer = consumer or torch.cuda.current_stream(self.device)
        consumer.wait_stream(self.stream)
        for t in self.uploaded.values():
            t.record_stream(consumer)
        result, self.uploaded = self.uploaded, {}
        return result
