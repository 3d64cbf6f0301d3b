"""LoRA slots filled on a loading stream while other adapters are being served."""
from collections import OrderedDict

import torch


class LoRAAdapter:
    def __init__(self, a_weights, b_weights):
        self.a = [w.pin_memory() for w in a_weights]
        self.b = [w.pin_memory() for w in b_weights]


class LoRAMemoryPool:
    def __init__(self, num_slots, num_layers, hidden, rank, dtype):
        shape_a, shape_b = (num_slots, rank, hidden), (num_slots, hidden, rank)
        self.a = [torch.zeros(shape_a, dtype=dtype, device="cuda") for _ in range(num_layers)]
        self.b = [torch.zeros(shape_b, dtype=dtype, device="cuda") for _ in range(num_layers)]
        self.slot_of = OrderedDict()
        self.free = list(range(num_slots))

    def take_slot(self, in_use):
        if self.free:
            return self.free.pop()
        for name in self.slot_of:
            if name not in in_use:
                return self.slot_of.pop(name)
        return None


class LoRAOverlapLoader:
    def __init__(self, pool):
        self.pool = pool
        self.load_stream = torch.cuda.Stream()
        self.load_stream.wait_stream(torch.cuda.current_stream())
        self.load_events = {}

    def try_load(self, name, adapter, in_use):
        slot = self.pool.take_slot(in_use)
        if slot is None:
            return False
        self.load_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.load_stream):
            for layer, (a, b) in enumerate(zip(adapter.a, adapter.b)):
                self.pool.a[layer][slot].copy_(a, non_blocking=True)
                self.pool.b[layer][slot].copy_(b, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self.load_stream)
        self.load_events[name] = event
        self.pool.slot_of[name] = slot
        return True

    def is_ready(self, name):
        event = self.load_events.get(name)
        if event is None:
            return name in self.pool.slot_of
        if not event.query():
            return False
        torch.cuda.current_stream().wait_event(event)
        del self.load_events[name]
        return True

    def force_ready(self, name):
        event = self.load_events.pop(name, None)
        if event is not None:
            torch.cuda.current_stream().wait_event(event)


class Scheduler:
    def __init__(self, adapters, base_layers, num_slots, rank):
        hidden = base_layers[0].weight.shape[1]
        self.adapters = adapters
        self.layers = base_layers
        self.pool = LoRAMemoryPool(num_slots, len(base_layers), hidden, rank, base_layers[0].weight.dtype)
        self.loader = LoRAOverlapLoader(self.pool)

    def run_batch(self, x, name):
        slot = self.pool.slot_of[name]
        self.pool.slot_of.move_to_end(name)
        for layer, base in enumerate(self.layers):
            delta = (x @ self.pool.a[layer][slot].t()) @ self.pool.b[layer][slot].t()
            x = base(x) + delta
        return x

    @torch.no_grad()
    def step(self, waiting):
        ready, blocked = [], []
        names = {name for _, name in waiting}
        for x, name in waiting:
            if name not in self.pool.slot_of and not self.loader.try_load(name, self.adapters[name], names):
                blocked.append((x, name))
                continue
            (ready if self.loader.is_ready(name) else blocked).append((x, name))
        if not ready and blocked:
            for i, (x, name) in enumerate(blocked):
                if name in self.pool.slot_of:
                    self.loader.force_ready(name)
                    ready.append(blocked.pop(i))
                    break
        return [self.run_batch(x, name) for x, name in ready], blocked
