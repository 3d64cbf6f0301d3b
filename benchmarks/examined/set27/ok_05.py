import torch


class ResidentExperts:
    """Experts of every layer that are kept on the device between prompts."""

    def __init__(self, layers, slots, shape, dtype):
        self.weights = [torch.empty(slots, *shape, dtype=dtype, device="cuda") for _ in range(layers)]
        self.index = [{} for _ in range(layers)]
        self.slots = slots

    def promote(self, layer, expert, weight):
        table = self.index[layer]
        if expert in table:
            return
        slot = len(table) if len(table) < self.slots else table.pop(next(iter(table)))
        self.weights[layer][slot].copy_(weight)
        table[expert] = slot


class PrefillExpertStreamer:
    """Streams the expert banks of a prefill, layer by layer, through two windows."""

    def __init__(self, host_weights, resident):
        self.host_weights = [w.pin_memory() for w in host_weights]
        self.resident = resident
        experts, *shape = self.host_weights[0].shape
        self.banks = torch.empty(
            2, experts, *shape, dtype=self.host_weights[0].dtype, device="cuda"
        )
        self.copy_stream = torch.cuda.Stream()
        self.ready_events = [torch.cuda.Event() for _ in range(2)]
        self.release_events = [torch.cuda.Event() for _ in range(2)]

    def begin(self):
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        self.prefetch(0)

    def prefetch(self, layer):
        side = layer % 2
        hits = self.resident.index[layer]
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(self.release_events[side])
            bank = self.banks[side]
            for expert in range(bank.shape[0]):
                if expert in hits:
                    bank[expert].copy_(self.resident.weights[layer][hits[expert]])
                else:
                    bank[expert].copy_(self.host_weights[layer][expert], non_blocking=True)
            self.ready_events[side].record(self.copy_stream)

    def acquire(self, layer):
        torch.cuda.current_stream().wait_event(self.ready_events[layer % 2])
        return self.banks[layer % 2]

    def release(self, layer):
        self.release_events[layer % 2].record(torch.cuda.current_stream())


def moe(x, router, bank, top_k):
    scores, ids = torch.softmax(x @ router, dim=-1).topk(top_k, dim=-1)
    out = torch.zeros_like(x)
    for expert in range(bank.shape[0]):
        token, slot = (ids == expert).nonzero(as_tuple=True)
        out.index_add_(0, token, (x[token] @ bank[expert]) * scores[token, slot].unsqueeze(1))
    return out, ids


class OffloadedMoEModel:
    def __init__(self, host_weights, routers, resident_slots, top_k=2):
        shape = host_weights[0].shape[1:]
        self.routers = routers
        self.top_k = top_k
        self.resident = ResidentExperts(
            len(host_weights), resident_slots, shape, host_weights[0].dtype
        )
        self.streamer = PrefillExpertStreamer(host_weights, self.resident)

    @torch.no_grad()
    def prefill(self, x):
        streamer = self.streamer
        streamer.begin()
        used = []
        for layer, router in enumerate(self.routers):
            if layer + 1 < len(self.routers):
                streamer.prefetch(layer + 1)
            bank = streamer.acquire(layer)
            out, ids = moe(x, router, bank, self.top_k)
            x = x + out
            used.append(torch.bincount(ids.flatten(), minlength=bank.shape[0]))
            streamer.release(layer)
        counts = torch.stack(used).cpu()
        for layer in range(len(self.routers)):
            hottest = counts[layer].topk(self.resident.slots).indices.tolist()
            for expert in hottest:
                self.resident.promote(layer, expert, streamer.host_weights[layer][expert])
        return x
