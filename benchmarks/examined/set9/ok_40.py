import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Dict, Optional, Protocol

import torch


class AsyncStager(Protocol):
    """Stages a state_dict in host memory before it is persisted in parallel to training."""

    _synchronize_after_execute: bool = True

    def stage(self, state_dict: Dict[str, Any]) -> Dict[str, Any]:
        ...

    def synchronize_staging(self) -> None:
        ...


class BlockingAsyncStager(AsyncStager):
    def __init__(self, cache_staged_state_dict: bool = True):
        self.cache_staged_state_dict = cache_staged_state_dict
        self._cache: Dict[str, torch.Tensor] = {}
        self._staging_stream = torch.cuda.Stream()
        self._staging_event: Optional[torch.cuda.Event] = None

    def _destination(self, key: str, value: torch.Tensor) -> torch.Tensor:
        cached = self._cache.get(key)
        if cached is None or cached.shape != value.shape or cached.dtype != value.dtype:
            cached = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
            if self.cache_staged_state_dict:
                self._cache[key] = cached
        return cached

    def stage(self, state_dict: Dict[str, Any]) -> Dict[str, Any]:
        staged = {}
        self._staging_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._staging_stream):
            for key, value in state_dict.items():
                if isinstance(value, torch.Tensor) and value.is_cuda:
                    source = value.detach().contiguous()
                    staged[key] = self._destination(key, source).copy_(source, non_blocking=True)
                else:
                    staged[key] = value
            self._staging_event = self._staging_stream.record_event()
        # the next optimizer step has to leave the sources alone until they are read
        torch.cuda.current_stream().wait_event(self._staging_event)
        return staged

    def synchronize_staging(self) -> None:
        if self._staging_event is not None:
            self._staging_event.synchronize()
            self._staging_event = None


class AsyncCheckpointer:
    def __init__(self, stager: AsyncStager):
        self.stager = stager
        self._executor = ThreadPoolExecutor(max_workers=1)
        self._last: Optional[Future] = None
        self._lock = threading.Lock()

    def async_save(self, state_dict: Dict[str, Any], path: str) -> Future:
        with self._lock:
            # the staged tensors are cached: the last writer has to be done with them
            if self._last is not None:
                self._last.result()
            staged = self.stager.stage(state_dict)
            if self.stager._synchronize_after_execute:
                self.stager.synchronize_staging()
            self._last = self._executor.submit(torch.save, staged, path)
            return self._last

    def close(self):
        if self._last is not None:
            self._last.result()
        self._executor.shutdown()


def train(model, optimizer, loader, checkpointer: AsyncCheckpointer, every: int = 500):
    for step, (inputs, targets) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(inputs.cuda(non_blocking=True)), targets.cuda(non_blocking=True))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % every == 0:
            checkpointer.async_save(dict(model.state_dict()), f"step-{step}.pt")
    checkpointer.close()
