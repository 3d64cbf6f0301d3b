"""Executes a small dataflow graph of tensor functions over several streams."""
from dataclasses import dataclass, field
from typing import Callable

import torch


@dataclass
class Node:
    name: str
    fn: Callable
    deps: tuple = ()
    lane: int = 0


@dataclass
class Plan:
    nodes: list = field(default_factory=list)

    def add(self, name, fn, *deps, lane=0):
        known = {n.name for n in self.nodes} | {"input"}
        unknown = set(deps) - known
        if unknown:
            raise KeyError(f"{name} depends on undefined {sorted(unknown)}")
        self.nodes.append(Node(name, fn, deps or ("input",), lane))
        return self

    def remaining_uses(self, outputs):
        uses = {}
        for node in self.nodes:
            for d in node.deps:
                uses[d] = uses.get(d, 0) + 1
        for o in outputs:
            uses[o] = uses.get(o, 0) + 1
        return uses


class LaneExecutor:
    def __init__(self, lanes=3, device="cuda"):
        self.device = torch.device(device)
        self.lanes = [torch.cuda.Stream(self.device) for _ in range(lanes)]

    def run(self, plan, x, outputs):
        caller = torch.cuda.current_stream(self.device)
        entered = caller.record_event()
        values, lane_of, events = {"input": x}, {"input": caller}, {"input": entered}
        uses = plan.remaining_uses(outputs)
        try:
            for node in plan.nodes:
                lane = self.lanes[node.lane % len(self.lanes)]
                for d in node.deps:
                    if lane_of[d] != lane:
                        lane.wait_event(events[d])
                        values[d].record_stream(lane)
                with torch.cuda.stream(lane):
                    values[node.name] = node.fn(*(values[d] for d in node.deps))
                    events[node.name] = lane.record_event()
                lane_of[node.name] = lane
                for d in node.deps:
                    uses[d] -= 1
                    if not uses[d]:
                        del values[d]
        finally:
            for lane in self.lanes:
                caller.wait_stream(lane)
        for o in outputs:
            values[o].record_stream(caller)
        return [values[o] for o in outputs]


def inception_plan(w1, w3, w5):
    conv = torch.nn.functional.conv2d
    return (
        Plan()
        .add("one", lambda x: conv(x, w1), lane=0)
        .add("three", lambda x: conv(x, w3, padding=1), lane=1)
        .add("five", lambda x: conv(x, w5, padding=2), lane=2)
        .add("mix", lambda a, b: (a * b).relu(), "one", "three", lane=1)
        .add("out", lambda m, f: torch.cat((m, f), 1), "mix", "five", lane=2)
        .add("mean", lambda o: o.mean(dim=(2, 3)), "out", lane=0)
    )


@torch.no_grad()
def main():
    device = "cuda"
    w1, w3, w5 = (torch.randn(16, 3, k, k, device=device) for k in (1, 3, 5))
    executor, plan = LaneExecutor(), inception_plan(w1, w3, w5)
    acc = torch.zeros(32, device=device)
    for _ in range(20):
        image = torch.rand(8, 3, 64, 64, device=device)
        (mean,) = executor.run(plan, image, ["mean"])
        acc += mean.sum(0)
    print(acc.cpu())


if __name__ == "__main__":
    main()
