"""Runs replicas in threads, one for each device, on the streams that were current in the calling thread."""
import threading
from typing import Any, List, Sequence

import torch
from torch import nn


def parallel_apply(modules: Sequence[nn.Module], inputs: Sequence[torch.Tensor], devices: Sequence[torch.device]) -> List[Any]:
    streams = [torch.cuda.current_stream(device) for device in devices]
    lock = threading.Lock()
    results: dict = {}
    grad_enabled = torch.is_grad_enabled()

    def worker(i: int) -> None:
        torch.set_grad_enabled(grad_enabled)
        try:
            # the current stream of a new thread is the default stream
            with torch.cuda.device(devices[i]), torch.cuda.stream(streams[i]):
                output = modules[i](inputs[i])
            with lock:
                results[i] = output
        except Exception as error:
            with lock:
                results[i] = error

    threads = [threading.Thread(target=worker, args=(i,)) for i in range(len(modules))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    outputs = []
    for i in range(len(modules)):
        if isinstance(results[i], Exception):
            raise results[i]
        outputs.append(results[i])
    return outputs


class SideStreamEnsemble:
    """Members of an ensemble on several devices, evaluated next to the main work of the caller."""

    def __init__(self, members: Sequence[nn.Module], devices: Sequence[torch.device]):
        self.devices = list(devices)
        self.members = [m.to(d).eval() for m, d in zip(members, devices)]
        self.streams = [torch.cuda.Stream(d) for d in devices]
        for stream, device in zip(self.streams, self.devices):
            stream.wait_stream(torch.cuda.current_stream(device))

    @torch.inference_mode()
    def predict(self, x: torch.Tensor) -> torch.Tensor:
        inputs = [x.to(device) for device in self.devices]
        for stream, device, inp in zip(self.streams, self.devices, inputs):
            stream.wait_stream(torch.cuda.current_stream(device))
            inp.record_stream(stream)

        contexts = [torch.cuda.stream(stream) for stream in self.streams]
        for context in contexts:
            context.__enter__()
        try:
            outputs = parallel_apply(self.members, inputs, self.devices)
        finally:
            for context in reversed(contexts):
                context.__exit__(None, None, None)

        for stream, device, out in zip(self.streams, self.devices, outputs):
            torch.cuda.current_stream(device).wait_stream(stream)
            out.record_stream(torch.cuda.current_stream(device))
        return torch.stack([out.to(x.device) for out in outputs]).mean(0)
