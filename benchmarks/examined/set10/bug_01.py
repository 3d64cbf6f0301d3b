import contextlib
import logging

import torch
import torch.nn as nn

LOG = logging.getLogger(__name__)


def _frozen_params(layer):
    return [(n, p) for n, p in layer.named_parameters() if not p.requires_grad]


class LayerOffloadManager:
    """Streams the frozen parameters of decoder layers between pinned host memory and the GPU."""

    def __init__(self, layers: nn.ModuleList, device, num_prefetch=1):
        self.layers = layers
        self.n_layers = len(layers)
        self.num_prefetch = num_prefetch
        self._device = torch.device(device)
        self._transfer_stream = torch.cuda.Stream(device=self._device)
        self._on_gpu = set(range(self.n_layers))
        self._frozen = [_frozen_params(layer) for layer in layers]
        self._cpu_data = [{} for _ in range(self.n_layers)]
        for i in range(self.n_layers):
            self._offload_layer(i)
        LOG.info("offloaded %d layers", self.n_layers)

    def _offload_layer(self, idx):
        if idx not in self._on_gpu:
            return
        for name, param in self._frozen[idx]:
            if param.device.type != "cuda":
                continue
            if name not in self._cpu_data[idx]:
                self._cpu_data[idx][name] = torch.empty_like(param.data, device="cpu", pin_memory=True)
            cpu_buf = self._cpu_data[idx][name]
            cpu_buf.copy_(param.data, non_blocking=True)
            param.data = cpu_buf
        self._on_gpu.discard(idx)

    def _load_layer(self, idx, stream=None):
        if idx in self._on_gpu or idx < 0 or idx >= self.n_layers:
            return
        ctx = torch.cuda.stream(stream) if stream is not None else contextlib.nullcontext()
        with ctx:
            for _, param in self._frozen[idx]:
                if param.device.type == "cuda":
                    continue
                param.data = param.data.to(self._device, non_blocking=True)
        self._on_gpu.add(idx)

    def _prefetch_layer(self, idx):
        if idx in self._on_gpu or idx < 0 or idx >= self.n_layers:
            return
        self._transfer_stream.wait_stream(torch.cuda.default_stream(self._device))
        self._load_layer(idx, stream=self._transfer_stream)

    def _wait_transfer(self):
        torch.cuda.default_stream(self._device).wait_stream(self._transfer_stream)

    def setup_hooks(self):
        for i, layer in enumerate(self.layers):
            layer.register_forward_pre_hook(lambda m, a, i=i: self._enter(i, +1))
            layer.register_forward_hook(lambda m, a, o, i=i: self._leave(i, i - 1, i == self.n_layers - 1))
            layer.register_full_backward_pre_hook(lambda m, g, i=i: self._enter(i, -1))
            layer.register_full_backward_hook(lambda m, gi, go, i=i: self._leave(i, i + 1, i == 0))

    def _enter(self, i, step):
        if i not in self._on_gpu:
            self._load_layer(i)
        self._wait_transfer()
        for k in range(1, self.num_prefetch + 1):
            self._prefetch_layer(i + step * k)

    def _leave(self, i, done, last):
        if 0 <= done < self.n_layers:
            self._offload_layer(done)
        if last:
            self._offload_layer(i)

    def pre_step(self):
        for i in list(self._on_gpu):
            self._offload_layer(i)
        self._prefetch_layer(0)

    def post_step(self):
        for i in list(self._on_gpu):
            self._offload_layer(i)
        self._prefetch_layer(0)


def train(model, manager, batches, optimizer):
    manager.setup_hooks()
    for batch in batches:
        manager.pre_step()
        loss = model(batch).float().mean()
        loss.backward()
        manager.post_step()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
