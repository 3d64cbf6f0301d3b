"""Decode context parallel attention: compressed KV of the other ranks is gathered one layer ahead."""
import torch
import torch.distributed as dist


class GatherWorkspace:
    """One flat buffer: a local staging region and `slots` gathered regions."""

    def __init__(self, capacity, width, world, slots, device):
        self.capacity, self.world, self.slots = capacity, world, slots
        rows = capacity * (1 + slots * world)
        self.records = torch.zeros((rows, width), dtype=torch.uint8, device=device)

    @property
    def local(self):
        return self.records[: self.capacity]

    def gathered(self, slot):
        base = self.capacity * (1 + slot * self.world)
        return self.records[base : base + self.capacity * self.world]


class CompressedKVGather:
    def __init__(self, layers, capacity, width, group, slots=2):
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.group = group
        self.world = dist.get_world_size(group)
        self.cache = torch.zeros((layers, capacity, width), dtype=torch.uint8, device=self.device)
        self.ws = GatherWorkspace(capacity, width, self.world, slots, self.device)
        self.side = torch.cuda.Stream(self.device)
        self.side_group = dist.new_group(dist.get_process_group_ranks(group))
        self.ready = [torch.cuda.Event() for _ in range(slots)]
        self.owner = [None] * slots

    def _gather(self, layer, slot, group):
        self.ws.local.copy_(self.cache[layer])
        dist.all_gather_into_tensor(self.ws.gathered(slot), self.ws.local, group=group)

    def prefetch(self, layer, slot):
        self.side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.side):
            self._gather(layer, slot, self.side_group)
            self.ready[slot].record()
        self.owner[slot] = layer

    def fetch(self, layer):
        if layer in self.owner:
            slot = self.owner.index(layer)
            torch.cuda.current_stream(self.device).wait_event(self.ready[slot])
            self.owner[slot] = None
            return self.ws.gathered(slot)
        slot = self.owner.index(None)
        self._gather(layer, slot, self.group)
        return self.ws.gathered(slot)


class ContextParallelDecoder:
    def __init__(self, layers, capacity, width, group, dense_layers=()):
        self.kv = CompressedKVGather(layers, capacity, width, group)
        self.layers = layers
        self.dense_layers = set(dense_layers)
        self.proj = torch.randn((width, width), device=self.kv.device)

    def _next_sparse(self, layer):
        for nxt in range(layer + 1, self.layers):
            if nxt not in self.dense_layers:
                return nxt
        return None

    def step(self, hidden):
        for layer in range(self.layers):
            nxt = self._next_sparse(layer)
            if nxt is not None and nxt not in self.kv.owner and None in self.kv.owner[1:]:
                self.kv.prefetch(nxt, 1)
            records = self.kv.fetch(layer)
            scores = hidden @ records.float().t()
            hidden = hidden + (scores.softmax(-1) @ records.float()) @ self.proj
        return hidden
