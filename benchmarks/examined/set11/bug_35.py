"""Serving worker: a model on one device, driven from an executor thread."""
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Dict, List

import torch


@dataclass
class Batch:
    request_ids: List[str]
    tokens: torch.Tensor  # pinned


class HostStaging:
    """Pinned result buffer, owned by the executor thread."""

    def __init__(self, max_batch: int, vocab_size: int):
        self.logits = torch.empty(max_batch, vocab_size, dtype=torch.float32, pin_memory=True)

    def store(self, logits: torch.Tensor) -> torch.Tensor:
        view = self.logits[: logits.shape[0]]
        view.copy_(logits, non_blocking=True)
        return view


class Worker:
    def __init__(self, device_index: int, model: torch.nn.Module, max_batch: int, vocab_size: int):
        torch.cuda.set_device(device_index)
        self.device = torch.device("cuda", device_index)
        self.model = model.to(self.device).eval()
        self.staging = HostStaging(max_batch, vocab_size)
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gpu-exec")
        self._results: Dict[str, Future] = {}
        torch.cuda.synchronize()

    @torch.inference_mode()
    def _execute(self, batch: Batch) -> Dict[str, torch.Tensor]:
        tokens = batch.tokens.to(self.device, non_blocking=True)
        logits = self.model(tokens)[:, -1].float()
        host = self.staging.store(logits)
        torch.cuda.current_stream().synchronize()
        return {rid: host[i].clone() for i, rid in enumerate(batch.request_ids)}

    def submit(self, batch: Batch) -> Future:
        future = self._executor.submit(self._execute, batch)
        for rid in batch.request_ids:
            self._results[rid] = future
        return future

    def poll(self) -> Dict[str, torch.Tensor]:
        done = {rid: f for rid, f in self._results.items() if f.done()}
        for rid in done:
            del self._results[rid]
        return {rid: f.result()[rid] for rid, f in done.items()}

    def shutdown(self) -> None:
        self._executor.shutdown(wait=True)


class WorkerPool:
    """One worker for each component of the model (thinker, talker, codec)."""

    def __init__(self, components: Dict[str, torch.nn.Module], placement: Dict[str, int], max_batch: int, vocab: Dict[str, int]):
        self.workers = {
            name: Worker(placement[name], module, max_batch, vocab[name]) for name, module in components.items()
        }

    def submit(self, component: str, batch: Batch) -> Future:
        return self.workers[component].submit(batch)

    def shutdown(self) -> None:
        for worker in self.workers.values():
            worker.shutdown()
