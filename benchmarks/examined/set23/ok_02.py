"""Async scheduling: tokens of step N are read back while step N+1 runs."""
from collections import deque

import torch


class SamplerGraph:
    def __init__(self, hidden, vocab, batch):
        self.lm_head = torch.randn(hidden, vocab, device="cuda", dtype=torch.half)
        self.embed = torch.randn(vocab, hidden, device="cuda", dtype=torch.half)
        self.input_ids = torch.zeros(batch, dtype=torch.long, device="cuda")
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(2):
                self._sample()
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.tokens = self._sample()

    def _sample(self):
        hidden = torch.nn.functional.embedding(self.input_ids, self.embed)
        return torch.argmax(torch.tanh(hidden) @ self.lm_head, dim=-1)

    def run(self, input_ids):
        self.input_ids.copy_(input_ids)
        self.graph.replay()
        return self.tokens


class TokenSlot:
    def __init__(self, batch):
        self.device = torch.zeros(batch, dtype=torch.long, device="cuda")
        self.host = torch.zeros(batch, dtype=torch.long, pin_memory=True)
        self.copied = torch.cuda.Event()
        self.used = False


class AsyncOutput:
    def __init__(self, slot):
        self.slot = slot

    def get_output(self):
        self.slot.copied.synchronize()
        return self.slot.host.tolist()


class AsyncModelRunner:
    def __init__(self, sampler, batch, depth=2):
        self.sampler = sampler
        self.ring = [TokenSlot(batch) for _ in range(depth)]
        self.step_id = 0
        self.copy_stream = torch.cuda.Stream()

    def execute(self, input_ids):
        main = torch.cuda.current_stream()
        slot = self.ring[self.step_id % len(self.ring)]
        self.step_id += 1
        tokens = self.sampler.run(input_ids)
        if slot.used:
            main.wait_event(slot.copied)
        slot.device.copy_(tokens)
        slot.used = True
        self.copy_stream.wait_stream(main)
        with torch.cuda.stream(self.copy_stream):
            slot.host.copy_(slot.device, non_blocking=True)
            slot.copied.record()
        return slot.device, AsyncOutput(slot)


def generate(batch=64, steps=128):
    sampler = SamplerGraph(1024, 32000, batch)
    runner = AsyncModelRunner(sampler, batch)
    device_ids = torch.arange(batch, device="cuda")
    in_flight = deque()
    history = []
    for _ in range(steps):
        device_ids, output = runner.execute(device_ids)
        in_flight.append(output)
        if len(in_flight) == 2:
            history.append(in_flight.popleft().get_output())
    while in_flight:
        history.append(in_flight.popleft().get_output())
    return history


if __name__ == "__main__":
    print(len(generate()))
