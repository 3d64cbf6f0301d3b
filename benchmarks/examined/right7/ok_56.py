"""A recurrent scheduler that keeps device state per session."""
import asyncio
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class Session:
    state: torch.Tensor
    touched: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class SessionEngine:
    def __init__(self, dim=128, lanes=3):
        self.cell = nn.GRUCell(dim, dim).cuda().eval()
        self.dim = dim
        self.lanes = [torch.cuda.Stream() for _ in range(lanes)]
        for lane in self.lanes:
            lane.wait_stream(torch.cuda.current_stream())
        self.turn = 0
        self.sessions: dict[str, Session] = {}

    def _open(self, key):
        if key not in self.sessions:
            session = Session(torch.zeros(1, self.dim, device="cuda"))
            session.touched.record()
            self.sessions[key] = session
        return self.sessions[key]

    @torch.inference_mode()
    def _advance(self, session: Session, value: float):
        lane = self.lanes[self.turn % len(self.lanes)]
        self.turn += 1
        lane.wait_event(session.touched)
        with torch.cuda.stream(lane):
            x = torch.full((1, self.dim), value, device="cuda")
            session.state.copy_(self.cell(x, session.state))
            host = torch.empty(1, self.dim, pin_memory=True)
            host.copy_(session.state, non_blocking=True)
            session.touched.record()
        return host

    async def step(self, key: str, value: float) -> float:
        session = self._open(key)
        async with session.lock:
            host = self._advance(session, value)
            await asyncio.to_thread(session.touched.synchronize)
            return host.mean().item()


async def chat(engine, key):
    return [await engine.step(key, float(i)) for i in range(10)]


async def main():
    engine = SessionEngine()
    rows = await asyncio.gather(*(chat(engine, f"s{i % 5}") for i in range(10)))
    print(len(rows), rows[0][-1])


if __name__ == "__main__":
    asyncio.run(main())
