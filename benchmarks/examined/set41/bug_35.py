"""Two-tier KV store: evicted device slots are written back to host memory."""
import collections
from dataclasses import dataclass, field
from typing import Deque, Dict, List, NamedTuple, Optional

import torch


class WriteBackOp(NamedTuple):
    request: int
    slots: List[int]
    pages: List[int]


class ForwardOp(NamedTuple):
    requests: List[int]
    slots: List[int]


@dataclass
class Plan:
    writebacks: List[WriteBackOp] = field(default_factory=list)
    forward: Optional[ForwardOp] = None


@dataclass
class TierConfig:
    layers: int = 8
    slots: int = 256
    pages: int = 8192
    width: int = 1024
    batch: int = 32
    dtype: torch.dtype = torch.bfloat16


class DeviceTier:
    def __init__(self, cfg: TierConfig, device: torch.device):
        self.kv = torch.zeros(cfg.layers, cfg.slots, cfg.width, dtype=cfg.dtype, device=device)


class HostTier:
    def __init__(self, cfg: TierConfig):
        self.kv = torch.zeros(cfg.layers, cfg.pages, cfg.width, dtype=cfg.dtype, pin_memory=True)
        self.free: Deque[int] = collections.deque(range(cfg.pages))


class HostExecutor:
    """Runs transfers between tiers on a stream of its own."""

    def __init__(self, cfg: TierConfig, dev: DeviceTier, host: HostTier):
        self.cfg, self.dev, self.host = cfg, dev, host
        self.write_stream = torch.cuda.Stream()
        self.acks: Deque[tuple] = collections.deque()

    def submit(self, op: WriteBackOp, producer: torch.cuda.Stream) -> None:
        self.write_stream.wait_stream(producer)
        with torch.cuda.stream(self.write_stream):
            for slot, page in zip(op.slots, op.pages):
                for layer in range(self.cfg.layers):
                    self.host.kv[layer, page].copy_(self.dev.kv[layer, slot], non_blocking=True)
            done = torch.cuda.Event()
            done.record(self.write_stream)
        self.acks.append((done, op.request))

    def poll(self) -> List[int]:
        out = []
        while self.acks and self.acks[0][0].query():
            out.append(self.acks.popleft()[1])
        return out

    def drain(self) -> List[int]:
        self.write_stream.synchronize()
        return self.poll()


class Scheduler:
    def __init__(self, cfg: TierConfig, host: HostTier):
        self.cfg, self.host = cfg, host
        self.free: Deque[int] = collections.deque(range(cfg.slots))
        self.resident: "collections.OrderedDict[int, List[int]]" = collections.OrderedDict()
        self.where: Dict[int, List[int]] = {}
        self.next_request = 0

    def plan(self) -> Plan:
        plan = Plan()
        while len(self.free) < self.cfg.batch:
            req, slots = self.resident.popitem(last=False)
            pages = [self.host.free.popleft() for _ in slots]
            plan.writebacks.append(WriteBackOp(req, slots, pages))
            self.where[req] = pages
            self.free.extendleft(reversed(slots))
        reqs, slots = [], []
        for _ in range(self.cfg.batch):
            s = self.free.popleft()
            self.resident[self.next_request] = [s]
            reqs.append(self.next_request)
            slots.append(s)
            self.next_request += 1
        plan.forward = ForwardOp(reqs, slots)
        return plan


class ModelExecutor:
    def __init__(self, cfg: TierConfig, dev: DeviceTier, device: torch.device):
        self.cfg, self.dev, self.device = cfg, dev, device
        self.w = [torch.randn(cfg.width, cfg.width, device=device, dtype=cfg.dtype) / cfg.width ** 0.5
                  for _ in range(cfg.layers)]

    def forward(self, op: ForwardOp, x: torch.Tensor) -> torch.Tensor:
        idx = torch.tensor(op.slots, pin_memory=True).to(self.device, non_blocking=True)
        for layer in range(self.cfg.layers):
            x = torch.relu(x @ self.w[layer])
            self.dev.kv[layer].index_copy_(0, idx, x)
        return x


class EventLoop:
    def __init__(self, cfg: TierConfig):
        self.cfg = cfg
        self.device = torch.device("cuda")
        self.dev = DeviceTier(cfg, self.device)
        self.host = HostTier(cfg)
        self.sched = Scheduler(cfg, self.host)
        self.model = ModelExecutor(cfg, self.dev, self.device)
        self.mem = HostExecutor(cfg, self.dev, self.host)
        self.stored: List[int] = []

    def submit_plan(self, plan: Plan, x: torch.Tensor) -> torch.Tensor:
        producer = torch.cuda.current_stream(self.device)
        for wb in plan.writebacks:
            self.mem.submit(wb, producer)
        return self.model.forward(plan.forward, x)

    @torch.inference_mode()
    def run(self, iters: int) -> int:
        x = torch.randn(self.cfg.batch, self.cfg.width, device=self.device, dtype=self.cfg.dtype)
        for _ in range(iters):
            y = self.submit_plan(self.sched.plan(), x)
            x = (y + x) * 0.5
            self.stored += self.mem.poll()
        self.stored += self.mem.drain()
        return len(self.stored)


def main():
    loop = EventLoop(TierConfig())
    n = loop.run(64)
    print("written back", n, float(loop.host.kv[0].float().abs().sum()))


if __name__ == "__main__":
    main()
