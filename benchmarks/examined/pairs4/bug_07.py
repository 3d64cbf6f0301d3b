"""Asyncio speech-activity service with cooperative polling."""
import asyncio
import contextlib

import torch
from torch import nn


class Session:
    """Per-connection device stream and a reusable host row."""

    def __init__(self, frames):
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.scores = torch.empty(frames, pin_memory=True)


class ActivityModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(80, 256, batch_first=True)
        self.out = nn.Linear(256, 1)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h).sigmoid().squeeze(-1)


class Service:
    def __init__(self, frames=200):
        self.model = ActivityModel().cuda().eval()
        self.frames = frames

    async def _finished(self, marker):
        while not marker.query():
            await asyncio.sleep(0.0005)

    async def score(self, session, features):
        staged = features.pin_memory()
        with torch.inference_mode(), torch.cuda.stream(session.stream):
            x = staged.to("cuda", non_blocking=True)
            y = self.model(x)[0]
            session.scores.copy_(y, non_blocking=True)
        marker = torch.cuda.current_stream().record_event()
        await self._finished(marker)
        return [i for i, p in enumerate(session.scores.tolist()) if p > 0.5]

    async def handle(self, index, rounds):
        session = Session(self.frames)
        active = 0
        for _ in range(rounds):
            features = torch.randn(1, self.frames, 80)
            active += len(await self.score(session, features))
        return index, active


async def main():
    service = Service()
    with contextlib.suppress(KeyboardInterrupt):
        results = await asyncio.gather(*(service.handle(i, 20) for i in range(8)))
        for index, active in results:
            print(index, active)


if __name__ == "__main__":
    asyncio.run(main())
