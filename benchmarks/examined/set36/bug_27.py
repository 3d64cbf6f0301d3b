"""Inference session with an arena for activations and an optional copy stream for outputs."""
from dataclasses import dataclass
from typing import Callable

import torch


@dataclass
class Node:
    name: str
    fn: Callable
    inputs: list
    output: str
    fetch: bool = False


class Arena:
    """Fixed-size slots cut from one allocation; the most recently freed slot is handed out first."""

    def __init__(self, slots, elems, device="cuda"):
        self.base = torch.empty(slots, elems, device=device)
        self._spare = list(range(slots - 1, -1, -1))

    def alloc(self, shape):
        index = self._spare.pop()
        return index, self.base[index, :shape.numel()].view(shape)

    def release(self, index):
        self._spare.append(index)


@dataclass
class Options:
    do_copy_in_default_stream: bool = True
    arena_slots: int = 6
    slot_elems: int = 1 << 22


@dataclass
class Value:
    slot: int
    tensor: torch.Tensor
    uses: int = 0


class Session:
    def __init__(self, nodes, options: Options):
        self.nodes = nodes
        self.compute_stream = torch.cuda.Stream()
        self.copy_stream = self.compute_stream if options.do_copy_in_default_stream else torch.cuda.Stream()
        self.arena = Arena(options.arena_slots, options.slot_elems)
        self.computed = torch.cuda.Event()
        torch.cuda.synchronize()

    def _count_uses(self):
        uses: dict[str, int] = {}
        for node in self.nodes:
            for name in node.inputs:
                uses[name] = uses.get(name, 0) + 1
        return uses

    def _drop(self, values, name):
        self.arena.release(values.pop(name).slot)

    def _fetch(self, tensor):
        host = torch.empty(tensor.shape, pin_memory=True)
        self.computed.record(self.compute_stream)
        self.copy_stream.wait_event(self.computed)
        with torch.cuda.stream(self.copy_stream):
            host.copy_(tensor, non_blocking=True)
        return host

    def run(self, feed: torch.Tensor):
        values, outputs = {}, {}
        uses = self._count_uses()
        slot, x = self.arena.alloc(feed.shape)
        with torch.cuda.stream(self.compute_stream):
            x.copy_(feed, non_blocking=True)
        values["input"] = Value(slot, x, uses.get("input", 0))

        for node in self.nodes:
            args = [values[n].tensor for n in node.inputs]
            slot, out = self.arena.alloc(args[0].shape)
            with torch.cuda.stream(self.compute_stream):
                node.fn(*args, out=out)
            values[node.output] = Value(slot, out, uses.get(node.output, 0))
            if node.fetch:
                outputs[node.output] = self._fetch(out)
            for name in node.inputs:
                values[name].uses -= 1
                if values[name].uses == 0:
                    self._drop(values, name)
        for name in list(values):
            self._drop(values, name)
        self.compute_stream.synchronize()
        self.copy_stream.synchronize()
        return outputs


def build(width=2048):
    w = torch.randn(6, width, width, device="cuda") / width ** 0.5
    names = ["input"] + [f"h{i}" for i in range(6)]
    return [
        Node(f"mm{i}", lambda a, out, m=w[i]: torch.mm(a, m, out=out), [names[i]], names[i + 1], fetch=i < 4)
        for i in range(6)
    ]


def main():
    session = Session(build(), Options(do_copy_in_default_stream=False))
    feed = torch.randn(2048, 2048).pin_memory()
    for _ in range(4):
        outputs = session.run(feed)
    print({k: float(v.std()) for k, v in outputs.items()})


if __name__ == "__main__":
    main()
