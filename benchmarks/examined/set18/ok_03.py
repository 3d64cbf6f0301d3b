"""Asynchronous layer-by-layer weight offloading with two reusable device buffers."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class TensorSlot:
    owner: nn.Module
    name: str
    offset: int
    nbytes: int
    shape: tuple
    dtype: torch.dtype


class AsyncLayerOffloader:
    """Weights are read-only; releasing a layer only switches back to the host views."""

    BUFFER_SLOTS = 2

    def __init__(self, layers, device):
        self.layers = tuple(layers)
        self.device = torch.device(device)
        self.payloads = [self._pack_layer(layer) for layer in self.layers]
        nbytes = max(host.numel() for host, _ in self.payloads)
        self.buffers = [
            torch.empty(nbytes, dtype=torch.uint8, device=self.device)
            for _ in range(self.BUFFER_SLOTS)
        ]
        self.transfer_stream = torch.cuda.Stream(device=self.device)
        self.transfer_stream.wait_stream(torch.cuda.current_stream(self.device))
        self.ready = [torch.cuda.Event() for _ in self.layers]
        self.reuse = [None] * self.BUFFER_SLOTS
        self.layer_buffer = [None] * len(self.layers)
        self.buffer_layer = [None] * self.BUFFER_SLOTS

    @staticmethod
    def _pack_layer(layer):
        slots, sources, offset = [], [], 0
        for owner in layer.modules():
            for name, param in owner._parameters.items():
                if param is None:
                    continue
                offset = (offset + 15) // 16 * 16
                nbytes = param.numel() * param.element_size()
                slots.append(TensorSlot(owner, name, offset, nbytes, tuple(param.shape), param.dtype))
                sources.append(param.detach().contiguous().reshape(-1).view(torch.uint8))
                offset += nbytes
        host = torch.empty(offset, dtype=torch.uint8, pin_memory=True)
        for slot, source in zip(slots, sources):
            host[slot.offset : slot.offset + slot.nbytes].copy_(source)
        return host, slots

    @staticmethod
    def _assign(slots, storage):
        for s in slots:
            view = storage.narrow(0, s.offset, s.nbytes).view(s.dtype).reshape(s.shape)
            s.owner._parameters[s.name] = nn.Parameter(view, requires_grad=False)

    def prefetch(self, index):
        if self.layer_buffer[index] is not None:
            return
        b = self.buffer_layer.index(None)
        host, slots = self.payloads[index]
        with torch.cuda.stream(self.transfer_stream):
            if self.reuse[b] is not None:
                self.transfer_stream.wait_event(self.reuse[b])
            self.buffers[b][: host.numel()].copy_(host, non_blocking=True)
            self._assign(slots, self.buffers[b])
            self.ready[index].record(self.transfer_stream)
        self.layer_buffer[index] = b
        self.buffer_layer[b] = index

    def wait(self, index):
        torch.cuda.current_stream(self.device).wait_event(self.ready[index])

    def release(self, index):
        b = self.layer_buffer[index]
        done = torch.cuda.Event()
        done.record(torch.cuda.current_stream(self.device))
        host, slots = self.payloads[index]
        self._assign(slots, host)
        self.reuse[b] = done
        self.buffer_layer[b] = None
        self.layer_buffer[index] = None


@torch.inference_mode()
def generate(offloader, embed, head, prompt_ids, max_new_tokens):
    ids = prompt_ids.to(offloader.device)
    n = len(offloader.layers)
    for _ in range(max_new_tokens):
        hidden = embed(ids)
        offloader.prefetch(0)
        for i, layer in enumerate(offloader.layers):
            if i + 1 < n:
                offloader.prefetch(i + 1)
            offloader.wait(i)
            hidden = layer(hidden)
            offloader.release(i)
        ids = torch.cat([ids, head(hidden[:, -1]).argmax(-1, keepdim=True)], dim=1)
    return ids.cpu()
