"""Low-rank adapter slots that are refreshed while a model is being served."""
import threading

import torch


class AdapterStash:
    """Page-locked copies of every adapter, as they arrive from the trainer."""

    def __init__(self, layers, rank, hidden):
        self.layers, self.rank, self.hidden = layers, rank, hidden
        self.table = {}

    def put(self, name, state):
        entry = self.table.get(name)
        if entry is None:
            entry = [
                (
                    torch.empty(self.rank, self.hidden, dtype=torch.half, pin_memory=True),
                    torch.empty(self.hidden, self.rank, dtype=torch.half, pin_memory=True),
                )
                for _ in range(self.layers)
            ]
        for (down, up), (src_down, src_up) in zip(entry, state):
            down.copy_(src_down)
            up.copy_(src_up)
        self.table[name] = entry
        return entry


class AdapterSlots:
    def __init__(self, layers, rank, hidden, capacity, device):
        shape_down, shape_up = (capacity, rank, hidden), (capacity, hidden, rank)
        self.down = [torch.zeros(shape_down, dtype=torch.half, device=device) for _ in range(layers)]
        self.up = [torch.zeros(shape_up, dtype=torch.half, device=device) for _ in range(layers)]
        self.load_stream = torch.cuda.Stream(device)
        self.serve_stream = torch.cuda.Stream(device)
        self.stash = AdapterStash(layers, rank, hidden)
        self.slot_of = {}
        self.free = list(range(capacity))
        self.lock = threading.Lock()
        torch.cuda.current_stream(device).synchronize()

    def upsert(self, name, state):
        with self.lock:
            slot = self.slot_of.get(name)
            if slot is None:
                slot = self.free.pop()
            # kernels that still use the former weights of this slot
            self.serve_stream.synchronize()
            self.load_stream.synchronize()
            entry = self.stash.put(name, state)
            with torch.cuda.stream(self.load_stream):
                for i, (down, up) in enumerate(entry):
                    self.down[i][slot].copy_(down, non_blocking=True)
                    self.up[i][slot].copy_(up, non_blocking=True)
            self.slot_of[name] = slot
            return slot

    def project(self, name, layer, hidden):
        with self.lock:
            slot = self.slot_of[name]
            with torch.cuda.stream(self.serve_stream):
                low = hidden @ self.down[layer][slot].t()
                return hidden + low @ self.up[layer][slot].t()


class Server:
    def __init__(self, layers=24, rank=16, hidden=2048, device="cuda"):
        self.layers = layers
        self.device = torch.device(device)
        self.slots = AdapterSlots(layers, rank, hidden, capacity=8, device=self.device)

    def on_weight_update(self, name, state):
        self.slots.upsert(name, state)

    def generate(self, name, tokens):
        stream = self.slots.serve_stream
        with torch.cuda.stream(stream):
            hidden = torch.nn.functional.one_hot(tokens.to(self.device), 2048).half()
            for layer in range(self.layers):
                hidden = self.slots.project(name, layer, hidden)
            best = hidden.argmax(-1)
        stream.synchronize()
        return best.cpu()


def refresh_and_sample(server, name, state, tokens):
    server.on_weight_update(name, state)
    return server.generate(name, tokens)
