import numpy as np
import torch


class AcceptedCounts:
    """Per-request number of accepted draft tokens, mirrored on the host."""

    def __init__(self, max_requests: int, device: torch.device):
        self.gpu = torch.ones(max_requests, dtype=torch.int32, device=device)
        self.cpu = torch.ones(max_requests, dtype=torch.int32, pin_memory=True)
        self.np = self.cpu.numpy()
        self.ready = torch.cuda.Event()

    def publish(self, accepted: torch.Tensor) -> None:
        n = accepted.shape[0]
        self.gpu[:n].copy_(accepted)
        self.cpu[:n].copy_(self.gpu[:n], non_blocking=True)
        self.ready.record()

    def counts(self, n: int) -> np.ndarray:
        self.ready.synchronize()
        return self.np[:n].copy()


class RequestTable:
    def __init__(self, max_requests: int, device: torch.device):
        self.req_ids: list = []
        self.accepted = AcceptedCounts(max_requests, device)

    def add(self, req_id: str) -> None:
        self.req_ids.append(req_id)

    def compact(self, finished: set) -> None:
        row = 0
        while row < len(self.req_ids):
            if self.req_ids[row] not in finished:
                row += 1
                continue
            last = len(self.req_ids) - 1
            if row != last:
                self.req_ids[row] = self.req_ids[last]
                self.accepted.np[row] = self.accepted.np[last]
            self.req_ids.pop()


class Runner:
    def __init__(self, target, drafter, device="cuda", max_requests=64):
        self.device = torch.device(device)
        self.target = target.to(self.device).eval()
        self.drafter = drafter
        self.table = RequestTable(max_requests, self.device)

    @torch.inference_mode()
    def step(self, finished: set, hidden: torch.Tensor) -> np.ndarray:
        self.table.compact(finished)
        n = len(self.table.req_ids)
        counts = self.table.accepted.counts(n)
        offsets = np.concatenate(([0], np.cumsum(counts)))
        logits = self.target(hidden[:n])
        draft = self.drafter(hidden[:n])
        match = (logits.argmax(-1) == draft).int()
        accepted = match.cumprod(dim=-1).sum(dim=-1).int() + 1
        self.table.accepted.publish(accepted)
        return offsets


def serve(runner: Runner, batches) -> list:
    plans = []
    for arrivals, finished, hidden in batches:
        for req_id in arrivals:
            runner.table.add(req_id)
        plans.append(runner.step(finished, hidden))
    return plans
