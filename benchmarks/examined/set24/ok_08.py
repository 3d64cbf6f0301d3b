from collections import OrderedDict

import torch


class LoRASlots:
    """Stacked adapter weights; slot i belongs to the adapter in slot_owner[i]."""

    def __init__(self, max_loras, rank, dim, num_layers, device):
        self.a = torch.zeros((num_layers, max_loras, rank, dim), device=device)
        self.b = torch.zeros((num_layers, max_loras, dim, rank), device=device)


class LoRAOverlapLoader:
    """Copies adapters on a side stream; the next forward waits for one event."""

    def __init__(self, device):
        self.stream = torch.cuda.Stream(device)
        self._event = None

    def __enter__(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        self._ctx = torch.cuda.stream(self.stream)
        self._ctx.__enter__()
        return self

    def __exit__(self, *exc):
        self._event = self.stream.record_event()
        self._ctx.__exit__(*exc)
        return False

    def wait(self):
        if self._event is not None:
            torch.cuda.current_stream().wait_event(self._event)
            self._event = None


class AdapterManager:
    def __init__(self, slots, max_loras, device):
        self.slots = slots
        self.host = {}
        self.active = OrderedDict()
        self.free = list(range(max_loras))
        self.loader = LoRAOverlapLoader(device)

    def register(self, name, a, b):
        self.host[name] = (a.pin_memory(), b.pin_memory())

    def activate(self, names):
        missing = [n for n in names if n not in self.active]
        for n in names:
            if n in self.active:
                self.active.move_to_end(n)
        if not missing:
            return
        with self.loader:
            for name in missing:
                if not self.free:
                    victim = next(k for k in self.active if k not in names)
                    self.free.append(self.active.pop(victim))
                slot = self.free.pop()
                a, b = self.host[name]
                self.slots.a[:, slot].copy_(a, non_blocking=True)
                self.slots.b[:, slot].copy_(b, non_blocking=True)
                self.active[name] = slot


class LoRARunner:
    def __init__(self, layers, dim, rank, max_loras, device="cuda"):
        self.layers = layers
        self.slots = LoRASlots(max_loras, rank, dim, len(layers), device)
        self.manager = AdapterManager(self.slots, max_loras, device)
        self.device = device

    @torch.inference_mode()
    def execute(self, x, adapter_names):
        self.manager.activate(set(adapter_names))
        index = torch.tensor([self.manager.active[n] for n in adapter_names], device=self.device)
        h = x.to(self.device)
        self.manager.loader.wait()
        for i, layer in enumerate(self.layers):
            a = self.slots.a[i][index]
            b = self.slots.b[i][index]
            low = torch.einsum("bd,brd->br", h, a)
            h = layer(h) + torch.einsum("br,bdr->bd", low, b)
        return h
