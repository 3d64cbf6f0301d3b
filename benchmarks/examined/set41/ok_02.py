"""Ragged prefill planner: layouts staged through alternating pinned buffers."""
import numpy as np
import torch


class PlanSlot:
    def __init__(self, max_segments, device):
        self.host = torch.zeros(max_segments + 1, dtype=torch.int32, pin_memory=True)
        self.view = self.host.numpy()
        self.dev = torch.zeros(max_segments + 1, dtype=torch.int32, device=device)
        self.retired = torch.cuda.Event()


class RaggedPlanner:
    def __init__(self, max_segments, device, copies=2):
        self.slots = [PlanSlot(max_segments, device) for _ in range(copies)]
        self.turn = 0

    def acquire(self):
        slot = self.slots[self.turn]
        self.turn = (self.turn + 1) % len(self.slots)
        slot.retired.synchronize()
        return slot

    def plan(self, lengths):
        slot = self.acquire()
        n = len(lengths)
        slot.view[0] = 0
        np.cumsum(lengths, out=slot.view[1: n + 1])
        slot.dev[: n + 1].copy_(slot.host[: n + 1], non_blocking=True)
        return slot, slot.dev[: n + 1]

    def retire(self, slot):
        slot.retired.record()


class SegmentModel:
    def __init__(self, dim, device):
        self.w = torch.randn(dim, dim, device=device) / dim ** 0.5
        self.device = device
        self.dim = dim

    def __call__(self, cu, x):
        h = torch.relu(x @ self.w)
        csum = torch.zeros(x.shape[0] + 1, self.dim, device=self.device)
        csum[1:] = h.cumsum(0)
        bounds = csum[cu.long()]
        return bounds[1:] - bounds[:-1]


class Engine:
    def __init__(self, dim=512, device="cuda"):
        self.device = torch.device(device)
        self.planner = RaggedPlanner(128, self.device)
        self.model = SegmentModel(dim, self.device)
        self.dim = dim
        self.running = torch.zeros(dim, device=self.device)

    @torch.inference_mode()
    def prefill(self, lengths):
        slot, cu = self.planner.plan(lengths)
        x = torch.randn(int(sum(lengths)), self.dim, device=self.device)
        out = self.model(cu, x)
        self.running.add_(out.sum(0))
        self.planner.retire(slot)

    def drain(self):
        return self.running.cpu()


def main():
    rng = np.random.default_rng(4)
    engine = Engine()
    for _ in range(100):
        lengths = rng.integers(16, 400, size=int(rng.integers(1, 16))).tolist()
        engine.prefill(lengths)
    print(engine.drain().norm())


if __name__ == "__main__":
    main()
