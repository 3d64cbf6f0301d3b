"""Per-request LoRA loading: adapters are copied into stacked device slots on a loading stream."""
from collections import OrderedDict

import torch
from torch import nn


class LinearWithLoRA(nn.Module):
    def __init__(self, base, max_loras, rank):
        super().__init__()
        self.base = base
        w = base.weight
        self.a = torch.zeros(max_loras, rank, base.in_features, dtype=w.dtype, device=w.device)
        self.b = torch.zeros(max_loras, base.out_features, rank, dtype=w.dtype, device=w.device)
        self.lora_ready = torch.cuda.Event()
        self.slot_ids = None

    def set_lora(self, slot, a, b):
        self.a[slot].copy_(a, non_blocking=True)
        self.b[slot].copy_(b, non_blocking=True)

    def forward(self, x):
        torch.cuda.current_stream().wait_event(self.lora_ready)
        y = self.base(x)
        a = self.a[self.slot_ids]
        b = self.b[self.slot_ids]
        return y + torch.einsum("bod,bd->bo", b, torch.einsum("brd,bd->br", a, x))


class LoRAManager:
    def __init__(self, model, max_loras):
        self.model = model
        self.layers = {n: m for n, m in model.named_modules() if isinstance(m, LinearWithLoRA)}
        self.max_loras = max_loras
        self.loading_stream = torch.cuda.Stream()
        self.slot_of = OrderedDict()
        self.host = {}
        torch.cuda.synchronize()

    def register(self, name, weights):
        self.host[name] = {k: (a.pin_memory(), b.pin_memory()) for k, (a, b) in weights.items()}

    def _pick_slot(self, keep):
        if len(self.slot_of) < self.max_loras:
            return len(self.slot_of)
        victim = next(n for n in self.slot_of if n not in keep)
        return self.slot_of.pop(victim)

    def activate(self, names):
        missing = [n for n in names if n not in self.slot_of]
        placed = []
        for n in missing:
            slot = self._pick_slot(names)
            self.slot_of[n] = slot
            placed.append((n, slot))
        for n in names:
            self.slot_of.move_to_end(n)
        if not placed:
            return
        with torch.cuda.stream(self.loading_stream):
            for key, layer in self.layers.items():
                for n, slot in placed:
                    layer.set_lora(slot, *self.host[n][key])
                layer.lora_ready.record(self.loading_stream)

    def map_rows(self, names):
        ids = torch.tensor([self.slot_of[n] for n in names], pin_memory=True)
        ids = ids.to("cuda", non_blocking=True)
        for layer in self.layers.values():
            layer.slot_ids = ids


@torch.inference_mode()
def serve(model, manager, batches):
    outputs = []
    for x, adapter_per_row in batches:
        manager.activate(sorted(set(adapter_per_row)))
        manager.map_rows(adapter_per_row)
        outputs.append(model(x.cuda(non_blocking=True)))
    return [o.cpu() for o in outputs]
