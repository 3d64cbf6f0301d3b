"""Asynchronous activation offload: saved tensors leave the device during forward and return in backward."""
from contextlib import contextmanager

import torch


class SwapTensor:
    def __init__(self, tensor):
        self.shape = tensor.shape
        self.tensor = tensor
        self.nbytes = tensor.untyped_storage().size()
        self.host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self.d2h_event = torch.cuda.Event()
        self.h2d_event = torch.cuda.Event()
        self.state = "device"

    def launch_d2h(self, stream):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.host.copy_(self.tensor, non_blocking=True)
            self.d2h_event.record(stream)
        self.state = "leaving"

    def finish_d2h(self):
        if self.state != "leaving":
            return
        torch.cuda.current_stream().wait_event(self.d2h_event)
        self.tensor.untyped_storage().resize_(0)
        self.state = "host"

    def launch_h2d(self, stream):
        if self.state != "host":
            return
        self.tensor.untyped_storage().resize_(self.nbytes)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.tensor.copy_(self.host, non_blocking=True)
            self.h2d_event.record(stream)
        self.state = "returning"

    def get(self):
        if self.state == "returning":
            torch.cuda.current_stream().wait_event(self.h2d_event)
            self.state = "device"
        return self.tensor


class LayerOffloader:
    def __init__(self, layers, min_bytes=1 << 20):
        self.layers = layers
        self.min_bytes = min_bytes
        self.d2h = torch.cuda.Stream()
        self.h2d = torch.cuda.Stream()

    @contextmanager
    def _hooks(self, bag):
        def pack(t):
            whole = t.is_contiguous() and t.untyped_storage().size() == t.numel() * t.element_size()
            if t.is_cuda and whole and t.grad_fn is not None and t.untyped_storage().size() >= self.min_bytes:
                clone = t.detach().clone()
                item = SwapTensor(clone)
                bag.append(item)
                return item
            return t

        def unpack(x):
            return x.get() if isinstance(x, SwapTensor) else x

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            yield

    def forward(self, x):
        bags = []
        for i, layer in enumerate(self.layers):
            bag = []
            with self._hooks(bag):
                x = layer(x)
            for item in bag:
                item.launch_d2h(self.d2h)
            bags.append(bag)
            if i > 0:
                for item in bags[i - 1]:
                    item.finish_d2h()
            x.register_hook(self._returner(bags, i))
        for item in bags[-1]:
            item.finish_d2h()
        return x

    def _returner(self, bags, i):
        def hook(grad):
            for item in bags[i]:
                item.launch_h2d(self.h2d)
            if i > 0:
                for item in bags[i - 1]:
                    item.launch_h2d(self.h2d)
            return grad
        return hook
