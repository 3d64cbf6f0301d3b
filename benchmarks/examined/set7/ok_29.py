from typing import Dict, Iterator, List, Optional

import torch


class Batch:
    def __init__(self, tensors: Dict[str, torch.Tensor]):
        self.tensors = tensors

    def pin_memory(self) -> "Batch":
        return Batch({k: v.pin_memory() for k, v in self.tensors.items()})

    def __getitem__(self, key: str) -> torch.Tensor:
        return self.tensors[key]


class InplaceCopyTrainPipeline:
    """Device batches are allocated on the compute stream and filled on the copy stream."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, device: torch.device):
        self._model = model
        self._optimizer = optimizer
        self._device = device
        self._memcpy_stream = torch.cuda.Stream(device, priority=-1)
        self._next: Optional[Batch] = None
        self._next_ready: Optional[torch.cuda.Event] = None

    def inplace_copy_batch_to_gpu(self, host: Batch) -> Batch:
        main = torch.cuda.current_stream(self._device)
        device_batch = Batch({k: torch.empty_like(v, device=self._device) for k, v in host.tensors.items()})
        self._memcpy_stream.wait_stream(main)
        with torch.cuda.stream(self._memcpy_stream):
            for k, v in host.tensors.items():
                device_batch[k].copy_(v, non_blocking=True)
            self._next_ready = self._memcpy_stream.record_event()
        return device_batch

    def _advance(self, loader: Iterator[Batch]) -> Optional[Batch]:
        current = self._next
        if current is None:
            host = next(loader, None)
            if host is None:
                return None
            current = self.inplace_copy_batch_to_gpu(host)
        torch.cuda.current_stream(self._device).wait_event(self._next_ready)
        host = next(loader, None)
        self._next = self.inplace_copy_batch_to_gpu(host) if host is not None else None
        return current

    def progress(self, loader: Iterator[Batch]) -> Optional[torch.Tensor]:
        batch = self._advance(loader)
        if batch is None:
            return None
        self._optimizer.zero_grad(set_to_none=True)
        out = self._model(batch["dense"], batch["values"], batch["offsets"])
        loss = torch.nn.functional.binary_cross_entropy_with_logits(out.squeeze(-1), batch["label"])
        loss.backward()
        self._optimizer.step()
        return loss.detach()


def train(pipeline: InplaceCopyTrainPipeline, loader, log_every: int = 100) -> List[float]:
    it = (b.pin_memory() for b in loader)
    history: List[float] = []
    step = 0
    while (loss := pipeline.progress(it)) is not None:
        if step % log_every == 0:
            history.append(loss.item())
        step += 1
    return history
