from dataclasses import dataclass
from typing import Dict, List

import torch


@dataclass
class StaticBuffer:
    weight: torch.Tensor
    bias: torch.Tensor


class _ModuleOffloader:
    def __init__(self, module: torch.nn.Linear, buffer: StaticBuffer, copy_stream: torch.cuda.Stream):
        self.copy_stream = copy_stream
        self.buffer = buffer
        self.cpu_weight = module.weight.detach().cpu().pin_memory()
        self.cpu_bias = module.bias.detach().cpu().pin_memory()
        self._copy_done_event = torch.cuda.Event()
        self._prefetch_in_capture = False

    def start_onload(self):
        fork_event = torch.cuda.current_stream().record_event()
        self.copy_stream.wait_event(fork_event)
        with torch.cuda.stream(self.copy_stream):
            self.buffer.weight.copy_(self.cpu_weight, non_blocking=True)
            self.buffer.bias.copy_(self.cpu_bias, non_blocking=True)
        self._copy_done_event.record(self.copy_stream)
        self._prefetch_in_capture = torch.cuda.is_current_stream_capturing()

    def wait(self):
        if torch.cuda.is_current_stream_capturing():
            # only wait on prefetches recorded inside this same capture
            if not self._prefetch_in_capture:
                return
            torch.cuda.current_stream().wait_event(self._copy_done_event)
            self._prefetch_in_capture = False
        else:
            torch.cuda.current_stream().wait_stream(self.copy_stream)


class PrefetchOffloader:
    def __init__(self, modules: List[torch.nn.Linear], prefetch_step: int = 1):
        self.copy_stream = torch.cuda.Stream()
        self.prefetch_step = prefetch_step
        pool = [StaticBuffer(torch.empty_like(m.weight), torch.empty_like(m.bias)) for m in modules]
        self.modules = [_ModuleOffloader(m, b, self.copy_stream) for m, b in zip(modules, pool)]
        self.sync_prev_onload()
        for i in range(prefetch_step):
            self.modules[i].start_onload()

    def run_layer(self, index: int, x: torch.Tensor) -> torch.Tensor:
        offloader = self.modules[index]
        offloader.wait()
        out = torch.nn.functional.linear(x, offloader.buffer.weight, offloader.buffer.bias)
        self.modules[(index + self.prefetch_step) % len(self.modules)].start_onload()
        return out

    def sync_prev_onload(self):
        torch.cuda.current_stream().wait_stream(self.copy_stream)

    def join_after_forward(self):
        for offloader in self.modules:
            if offloader._prefetch_in_capture:
                torch.cuda.current_stream().wait_event(offloader._copy_done_event)
                offloader._prefetch_in_capture = False


class GraphWrapper:
    def __init__(self, offloader: PrefetchOffloader, num_layers: int, hidden: int):
        self.offloader = offloader
        self.num_layers = num_layers
        self.hidden = hidden
        self.entries: Dict[int, tuple] = {}

    def _forward(self, x):
        for i in range(self.num_layers):
            x = torch.relu(self.offloader.run_layer(i, x))
        return x

    @torch.inference_mode()
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        bs = x.shape[0]
        if bs not in self.entries:
            static_input = x.clone()
            self._forward(static_input)
            self.offloader.sync_prev_onload()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                output = self._forward(static_input)
                self.offloader.join_after_forward()
            self.entries[bs] = (graph, static_input, output)
        graph, static_input, output = self.entries[bs]
        static_input.copy_(x)
        self.offloader.sync_prev_onload()
        graph.replay()
        return output
