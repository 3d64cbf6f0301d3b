"""Asyncio decoding: the forward is issued ahead, results are awaited later."""
import asyncio
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn


class StepResult:
    """Tokens of one step on their way to the host."""

    def __init__(self, host, event):
        self._host = host
        self._event = event

    def _fetch(self):
        self._event.synchronize()
        return self._host.tolist()

    async def tokens(self, pool):
        return await asyncio.get_running_loop().run_in_executor(pool, self._fetch)


class Decoder:
    def __init__(self, vocab, width, batch, device):
        self.device = torch.device(device)
        self.net = nn.Sequential(
            nn.Embedding(vocab, width), nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, vocab)).to(device)
        self.state = torch.arange(batch, device=device)
        self.out_stream = torch.cuda.Stream(device)

    @torch.inference_mode()
    def step(self):
        nxt = self.net(self.state).argmax(-1)
        self.state = nxt
        host = torch.empty(nxt.shape, dtype=nxt.dtype, pin_memory=True)
        produced = torch.cuda.current_stream(self.device).record_event()
        with torch.cuda.stream(self.out_stream):
            self.out_stream.wait_event(produced)
            host.copy_(nxt, non_blocking=True)
            landed = self.out_stream.record_event()
        nxt.record_stream(self.out_stream)
        return StepResult(host, landed)


class Session:
    def __init__(self, decoder, lookahead=2):
        self.decoder = decoder
        self.lookahead = lookahead
        self.pool = ThreadPoolExecutor(1)

    async def stream(self, steps):
        in_flight = []
        for _ in range(steps):
            in_flight.append(self.decoder.step())
            if len(in_flight) > self.lookahead:
                yield await in_flight.pop(0).tokens(self.pool)
        while in_flight:
            yield await in_flight.pop(0).tokens(self.pool)


async def main():
    session = Session(Decoder(8000, 512, 32, "cuda:0"))
    history = []
    async for tokens in session.stream(20):
        history.append(tokens)
    print(len(history), history[-1][:8])


if __name__ == "__main__":
    asyncio.run(main())
