"""Asyncio front end of a PyTorch decoding engine."""
import asyncio
from dataclasses import dataclass, field

import torch
import torch.nn as nn


@dataclass
class Message:
    session: int
    tokens: list
    limit: int
    queue: asyncio.Queue = field(default_factory=asyncio.Queue)


class TinyLM(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.body = nn.Sequential(*[nn.Linear(width, width) for _ in range(8)])
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        return self.head(self.body(self.embed(ids)))


class ModelAgent:
    def __init__(self, model, max_batch, device):
        self.model = model.to(device).eval()
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(device)
        self.out_stream = torch.cuda.Stream(device)
        self.host_tokens = torch.empty(max_batch, dtype=torch.int64, pin_memory=True)
        self.device_tokens = torch.empty(max_batch, dtype=torch.int64, device=device)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))

    @torch.inference_mode()
    def _launch(self, ids):
        n = len(ids)
        with torch.cuda.stream(self.stream):
            self.stream.wait_stream(self.out_stream)
            inputs = torch.tensor(ids, device=self.device)
            logits = self.model(inputs)
            torch.argmax(logits, dim=-1, out=self.device_tokens[:n])
        self.out_stream.wait_stream(self.stream)
        with torch.cuda.stream(self.out_stream):
            self.host_tokens[:n].copy_(self.device_tokens[:n], non_blocking=True)

    def forward(self, ids):
        self._launch(ids)
        self.stream.synchronize()
        return self.host_tokens[:len(ids)].tolist()


class Engine:
    def __init__(self, agent):
        self.agent = agent
        self.running = []
        self.waiting = asyncio.Queue()

    def add(self, msg):
        self.waiting.put_nowait(msg)

    def _schedule(self):
        while not self.waiting.empty():
            self.running.append(self.waiting.get_nowait())

    async def loop(self):
        loop = asyncio.get_running_loop()
        self._schedule()
        while self.running:
            ids = [m.tokens[-1] for m in self.running]
            new = await loop.run_in_executor(None, self.agent.forward, ids)
            for msg, token in zip(self.running, new):
                msg.tokens.append(token)
                msg.queue.put_nowait(token)
            self.running = [m for m in self.running if len(m.tokens) < m.limit]
            self._schedule()


async def main():
    engine = Engine(ModelAgent(TinyLM(32000, 1024), 64, "cuda:0"))
    msgs = [Message(i, [i + 1], 24) for i in range(16)]
    for m in msgs:
        engine.add(m)
    await engine.loop()
    print([m.tokens[:6] for m in msgs[:3]])


if __name__ == "__main__":
    asyncio.run(main())
