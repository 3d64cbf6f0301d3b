import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch


def parallel_apply(
    modules: Sequence[torch.nn.Module],
    inputs: Sequence[Tuple[torch.Tensor, ...]],
    devices: Sequence[torch.device],
    kwargs: Optional[Sequence[Dict[str, Any]]] = None,
) -> List[torch.Tensor]:
    """Applies every module to its inputs, each from a thread of its own."""
    assert len(modules) == len(inputs) == len(devices)
    kwargs = kwargs or ({},) * len(modules)
    streams = [torch.cuda.current_stream(d) for d in devices]
    lock = threading.Lock()
    results: Dict[int, Union[torch.Tensor, Exception]] = {}
    grad_enabled = torch.is_grad_enabled()

    def _worker(i, module, args, kw, device, stream):
        torch.set_grad_enabled(grad_enabled)
        try:
            with torch.cuda.device(device), torch.cuda.stream(stream):
                output = module(*args, **kw)
            with lock:
                results[i] = output
        except Exception as e:
            with lock:
                results[i] = e

    threads = [
        threading.Thread(target=_worker, args=(i, m, a, kw, d, s))
        for i, (m, a, kw, d, s) in enumerate(zip(modules, inputs, kwargs, devices, streams))
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()

    outputs = []
    for i in range(len(modules)):
        if isinstance(results[i], Exception):
            raise results[i]
        outputs.append(results[i])
    return outputs


class ReplicaRunner:
    """Runs the replicas away from the default streams of their devices."""

    def __init__(self, replicas: Sequence[torch.nn.Module], devices: Sequence[torch.device]):
        self.replicas = list(replicas)
        self.devices = list(devices)
        self.streams = [torch.cuda.Stream(d) for d in self.devices]

    def _scatter(self, x: torch.Tensor) -> List[Tuple[torch.Tensor, ...]]:
        pinned = x.pin_memory()
        return [(c.to(d, non_blocking=True),) for c, d in zip(pinned.chunk(len(self.devices)), self.devices)]

    @torch.inference_mode()
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        previous = [torch.cuda.current_stream(d) for d in self.devices]
        for s, p in zip(self.streams, previous):
            s.wait_stream(p)
            torch.cuda.set_stream(s)
        try:
            inputs = self._scatter(x)
            outputs = parallel_apply(self.replicas[: len(inputs)], inputs, self.devices[: len(inputs)])
            host = [o.float().cpu() for o in outputs]
        finally:
            for p in previous:
                torch.cuda.set_stream(p)
            torch.cuda.set_device(self.devices[0])
        return torch.cat(host)
