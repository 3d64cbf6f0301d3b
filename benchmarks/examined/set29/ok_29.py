"""Relay of decoded tokens between the streams of a serving loop. Several
producers publish into the same relay; a copy stream takes host snapshots."""
import torch


class TokenRelay:
    def __init__(self, max_reqs, device):
        self.buf = torch.zeros(max_reqs, dtype=torch.int64, device=device)
        self.ready = torch.cuda.Event()
        self.read_done = torch.cuda.Event()

    def publish(self, slots, tokens):
        stream = torch.cuda.current_stream()
        stream.wait_event(self.read_done)
        stream.wait_event(self.ready)
        self.buf.index_copy_(0, slots, tokens)
        self.ready.record(stream)

    def snapshot(self, stream, out):
        stream.wait_event(self.ready)
        with torch.cuda.stream(stream):
            out.copy_(self.buf, non_blocking=True)
            self.read_done.record(stream)


class Forward:
    def __init__(self, batch, device, hidden=1024, vocab=32000):
        self.stream = torch.cuda.Stream(device)
        with torch.cuda.stream(self.stream):
            self.slots = torch.arange(batch, device=device)
            self.h = torch.randn(batch, hidden, device=device)
            self.w = torch.randn(hidden, hidden, device=device) / hidden ** 0.5
            self.head = torch.randn(hidden, vocab, device=device)

    def step(self, relay):
        with torch.cuda.stream(self.stream):
            self.h = torch.tanh(self.h @ self.w)
            relay.publish(self.slots, (self.h @ self.head).argmax(dim=-1))


class Seeder:
    """Publishes the first token of requests whose prefill ran elsewhere."""

    def __init__(self, device):
        self.stream = torch.cuda.Stream(device)
        self.device = device

    def seed(self, relay, first, count, token):
        with torch.cuda.stream(self.stream):
            slots = torch.arange(first, first + count, device=self.device)
            relay.publish(slots, torch.full((count,), token, dtype=torch.int64, device=self.device))


class Loop:
    def __init__(self, max_reqs=256, batch=64):
        self.device = torch.device("cuda")
        self.relay = TokenRelay(max_reqs, self.device)
        torch.cuda.synchronize()
        self.forward = Forward(batch, self.device)
        self.seeder = Seeder(self.device)
        self.copy_stream = torch.cuda.Stream(self.device)
        self.host = [torch.zeros(max_reqs, dtype=torch.int64).pin_memory() for _ in range(2)]
        self.arrived = [torch.cuda.Event() for _ in range(2)]
        self.pending = None

    def iterate(self, k, seeds):
        self.forward.step(self.relay)
        for first, count, token in seeds:
            self.seeder.seed(self.relay, first, count, token)
        slot = k % 2
        self.relay.snapshot(self.copy_stream, self.host[slot])
        self.arrived[slot].record(self.copy_stream)
        previous, self.pending = self.pending, slot
        if previous is None:
            return None
        self.arrived[previous].synchronize()
        return self.host[previous].tolist()


if __name__ == "__main__":
    loop = Loop()
    with torch.no_grad():
        for k in range(20):
            tokens = loop.iterate(k, [(64 + k * 4, 4, 7)] if k % 3 == 0 else [])
            if tokens:
                print(k, tokens[:3], tokens[64:68])
