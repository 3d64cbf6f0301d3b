"""Layerwise weight streaming for a DiT: a courier thread reads mapped files, uploads ahead."""
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import nn


class MappedLayer:
    def __init__(self, path, specs):
        self.map = np.memmap(path, dtype=np.uint8, mode="r")
        self.specs = specs
        self.pinned = {}

    def host_views(self):
        if not self.pinned:
            for name, (offset, nbytes, shape) in self.specs.items():
                raw = torch.from_numpy(np.array(self.map[offset:offset + nbytes]))
                self.pinned[name] = raw.view(torch.bfloat16).view(shape).pin_memory()
        return self.pinned.items()


class Courier:
    def __init__(self, layers, device):
        self.layers = layers
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="courier")
        self.jobs = {}
        self.lock = threading.Lock()

    def _upload(self, index):
        torch.cuda.set_device(self.device)
        out = {}
        with torch.cuda.stream(self.stream):
            for name, view in self.layers[index].host_views():
                out[name] = view.to(self.device, non_blocking=True)
            ready = torch.cuda.Event()
            ready.record(self.stream)
        return out, ready

    def request(self, index):
        with self.lock:
            if index < len(self.layers) and index not in self.jobs:
                self.jobs[index] = self.pool.submit(self._upload, index)

    def collect(self, index):
        self.request(index)
        with self.lock:
            job = self.jobs.pop(index)
        tensors, ready = job.result()
        torch.cuda.current_stream(self.device).wait_event(ready)
        return tensors


class StreamedBlocks:
    def __init__(self, blocks, courier, ahead=2):
        self.blocks = blocks
        self.courier = courier
        self.ahead = ahead
        self.placeholder = torch.empty(0, dtype=torch.bfloat16, device=courier.device)
        for index, block in enumerate(blocks):
            block.register_forward_pre_hook(self._make_pre(index))
            block.register_forward_hook(self._make_post())

    def _make_pre(self, index):
        def pre(module, args):
            weights = self.courier.collect(index)
            for name, param in module.named_parameters():
                param.data = weights[name]
            for step in range(1, self.ahead + 1):
                self.courier.request(index + step)
        return pre

    def _make_post(self):
        def post(module, args, output):
            for param in module.parameters():
                param.data = self.placeholder
        return post


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width, bias=False, dtype=torch.bfloat16, device="meta")
        self.down = nn.Linear(4 * width, width, bias=False, dtype=torch.bfloat16, device="meta")

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


def build(paths, specs, width, device):
    blocks = nn.ModuleList(Block(width) for _ in paths)
    for block in blocks:
        for mod in (block.up, block.down):
            mod.weight = nn.Parameter(torch.empty(0, dtype=torch.bfloat16, device=device),
                                      requires_grad=False)
    courier = Courier([MappedLayer(p, specs) for p in paths], device)
    StreamedBlocks(blocks, courier)
    return blocks


@torch.inference_mode()
def denoise(blocks, latent, steps):
    for _ in range(steps):
        h = latent
        for block in blocks:
            h = block(h)
        latent = latent - 0.1 * h
    return latent
