from dataclasses import dataclass

import torch


@dataclass
class Prefetched:
    inputs: torch.Tensor
    targets: torch.Tensor
    cum_seqlens: torch.Tensor
    ready: torch.cuda.Event


class PrefetchLoader:
    """Wraps a host generator; the next batch is in flight while one is used."""

    def __init__(self, host_loader, device):
        self.host_loader = host_loader
        self.device = device
        self.copy_stream = torch.cuda.Stream(device)
        self._started = False
        self._next = None

    def _to_gpu(self, host_batch):
        inputs, targets, cum = host_batch
        with torch.cuda.stream(self.copy_stream):
            moved = (
                inputs.pin_memory().to(self.device, dtype=torch.int32, non_blocking=True),
                targets.pin_memory().to(self.device, dtype=torch.int64, non_blocking=True),
                cum.pin_memory().to(self.device, dtype=torch.int32, non_blocking=True),
            )
            ready = torch.cuda.Event()
            ready.record(self.copy_stream)
        return Prefetched(*moved, ready)

    def _hand_out(self, batch):
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(batch.ready)
        for t in (batch.inputs, batch.targets, batch.cum_seqlens):
            t.record_stream(stream)
        return batch.inputs, batch.targets, batch.cum_seqlens

    def send(self, params):
        if not self._started:
            self._started = True
            self._next = self._to_gpu(next(self.host_loader))
        current = self._next
        self._next = self._to_gpu(self.host_loader.send(params))
        return self._hand_out(current)


def train(model, optimizers, loader, schedule):
    losses = []
    for step, params in enumerate(schedule):
        inputs, targets, cum_seqlens = loader.send(params)
        loss = model(inputs, targets, cum_seqlens, step)
        loss.backward()
        for opt in optimizers:
            opt.step()
            opt.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        del inputs, targets, cum_seqlens
    return torch.stack(losses).tolist()
