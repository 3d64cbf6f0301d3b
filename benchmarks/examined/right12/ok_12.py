from dataclasses import dataclass, field
from typing import Callable, Dict, List, Tuple

import torch


@dataclass
class Node:
    name: str
    fn: Callable
    deps: Tuple[str, ...] = ()


@dataclass
class Plan:
    nodes: List[Node] = field(default_factory=list)

    def add(self, name, fn, *deps):
        known = {node.name for node in self.nodes} | {"input"}
        missing = [dep for dep in deps if dep not in known]
        if missing:
            raise KeyError(f"{name} needs {missing}")
        self.nodes.append(Node(name, fn, deps))
        return self


class GraphExecutor:
    def __init__(self, plan, lanes=3, device="cuda"):
        self.plan = plan
        self.device = torch.device(device, torch.cuda.current_device())
        self.lanes = [torch.cuda.Stream(self.device) for _ in range(lanes)]

    def _choose(self, node, homes, turn):
        if turn % 2:
            for dep in node.deps:
                if dep in homes:
                    return homes[dep]
        return self.lanes[turn % len(self.lanes)]

    @torch.no_grad()
    def run(self, x, wanted):
        caller = torch.cuda.current_stream(self.device)
        values: Dict[str, torch.Tensor] = {"input": x}
        events = {"input": caller.record_event()}
        homes = {}
        owner = {"input": caller}
        try:
            for turn, node in enumerate(self.plan.nodes):
                lane = self._choose(node, homes, turn)
                args = []
                for dep in node.deps:
                    value = values[dep]
                    if owner[dep] is not lane:
                        lane.wait_event(events[dep])
                        value.record_stream(lane)
                    args.append(value)
                with torch.cuda.stream(lane):
                    values[node.name] = node.fn(*args)
                    events[node.name] = lane.record_event()
                homes[node.name] = lane
                owner[node.name] = lane
        finally:
            for lane in self.lanes:
                caller.wait_stream(lane)
        results = {}
        for name in wanted:
            values[name].record_stream(caller)
            results[name] = values[name]
        return results


def main():
    device = torch.device("cuda")
    weights = [torch.randn(512, 512, device=device) / 512 ** 0.5 for _ in range(4)]
    torch.cuda.synchronize()
    plan = Plan()
    plan.add("q", lambda x: x @ weights[0], "input")
    plan.add("k", lambda x: x @ weights[1], "input")
    plan.add("v", lambda x: x @ weights[2], "input")
    plan.add("scores", lambda q, k: torch.softmax(q @ k.t() / 512 ** 0.5, dim=-1), "q", "k")
    plan.add("mixed", lambda s, v: s @ v, "scores", "v")
    plan.add("gate", lambda x: torch.sigmoid(x @ weights[3]), "input")
    plan.add("out", lambda m, g, x: m * g + x, "mixed", "gate", "input")
    executor = GraphExecutor(plan)
    for step in range(10):
        x = torch.randn(128, 512, device=device)
        results = executor.run(x, ["out", "scores"])
        del x
    total = results["out"].sum() + results["scores"].sum()
    print(total.item())


if __name__ == "__main__":
    main()
