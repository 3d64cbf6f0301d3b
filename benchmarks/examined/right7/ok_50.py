"""Plugins registered by name that share an execution context."""
from typing import Protocol

import torch


class ExecContext:
    def __init__(self):
        self.streams: dict[str, torch.cuda.Stream] = {}
        self.fences: dict[str, torch.cuda.Event] = {}

    def run(self, plugin: "Plugin", bag: dict):
        stream = self.streams.setdefault(plugin.lane, torch.cuda.Stream())
        for key in (*plugin.reads, *plugin.writes):
            if key in self.fences:
                stream.wait_event(self.fences[key])
        with torch.cuda.stream(stream):
            plugin(bag)
        fence = stream.record_event()
        for key in (*plugin.reads, *plugin.writes):
            self.fences[key] = fence

    def seal(self, bag: dict):
        stream = torch.cuda.current_stream()
        for key in bag:
            self.fences[key] = stream.record_event()

    def close(self):
        for stream in self.streams.values():
            torch.cuda.current_stream().wait_stream(stream)


class Plugin(Protocol):
    lane: str
    reads: tuple
    writes: tuple

    def __call__(self, bag: dict): ...


PLUGINS: dict[str, Plugin] = {}


def register(lane, reads=(), writes=()):
    def deco(cls):
        cls.lane, cls.reads, cls.writes = lane, reads, writes
        PLUGINS[cls.__name__] = cls()
        return cls
    return deco


@register("a", reads=("image",), writes=("gray",))
class Gray:
    def __call__(self, bag):
        torch.mean(bag["image"], dim=0, out=bag["gray"])


@register("b", reads=("gray",), writes=("edges",))
class Edges:
    def __call__(self, bag):
        torch.sub(bag["gray"][1:], bag["gray"][:-1], out=bag["edges"])


@register("a", reads=("edges",), writes=("image",))
class Feedback:
    def __call__(self, bag):
        bag["image"][:, 1:].add_(bag["edges"], alpha=0.1)


def main():
    bag = {
        "image": torch.rand(3, 256, 256, device="cuda"),
        "gray": torch.empty(256, 256, device="cuda"),
        "edges": torch.empty(255, 256, device="cuda"),
    }
    ctx = ExecContext()
    ctx.seal(bag)
    for _ in range(10):
        for name in ("Gray", "Edges", "Feedback"):
            ctx.run(PLUGINS[name], bag)
    ctx.close()
    print(bag["image"].mean().item())


if __name__ == "__main__":
    main()
