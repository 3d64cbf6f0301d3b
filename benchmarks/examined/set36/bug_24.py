"""A small static-graph executor with a separate fetch stream."""
from dataclasses import dataclass
from typing import Callable

import torch


@dataclass
class Op:
    fn: Callable
    inputs: tuple
    output: str


class FetchHandle:
    def __init__(self, values, event):
        self._values = values
        self._event = event

    def result(self):
        self._event.synchronize()
        return {name: t.clone() for name, t in self._values.items()}


class Executor:
    def __init__(self, program, shapes, device="cuda"):
        self.program = program
        self.exec_stream = torch.cuda.Stream()
        self.fetch_stream = torch.cuda.Stream()
        self.vars = {name: torch.zeros(shape, device=device) for name, shape in shapes.items()}
        self.events: dict[str, torch.cuda.Event] = {}
        self.fetch_done = torch.cuda.Event()
        torch.cuda.synchronize()

    def _feed(self, feed):
        with torch.cuda.stream(self.exec_stream):
            for name, host in feed.items():
                self.vars[name].copy_(host, non_blocking=True)

    def _run_op(self, op: Op):
        with torch.cuda.stream(self.exec_stream):
            out = op.fn(*(self.vars[i] for i in op.inputs))
            self.vars[op.output].copy_(out)
            event = self.events.setdefault(op.output, torch.cuda.Event())
            event.record(self.exec_stream)

    def _fetch(self, names):
        values = {}
        with torch.cuda.stream(self.fetch_stream):
            for name in names:
                event = self.events.get(name)
                if event is not None:
                    self.fetch_stream.wait_event(event)
                host = torch.empty(self.vars[name].shape, pin_memory=True)
                host.copy_(self.vars[name], non_blocking=True)
                values[name] = host
            done = torch.cuda.Event()
            done.record(self.fetch_stream)
        self.fetch_done = done
        return FetchHandle(values, done)

    def run(self, feed, fetch):
        """One step. Returns a handle; the caller decides when to block on it."""
        self.exec_stream.wait_event(self.fetch_done)
        self._feed(feed)
        for op in self.program:
            self._run_op(op)
        return self._fetch(fetch)


def make_program(hidden):
    torch.manual_seed(0)
    w1 = torch.randn(hidden, 4 * hidden, device="cuda") * 0.02
    w2 = torch.randn(4 * hidden, hidden, device="cuda") * 0.02
    return [
        Op(lambda x: torch.relu(x @ w1), ("image",), "fc1"),
        Op(lambda h: h @ w2, ("fc1",), "fc2"),
        Op(lambda h, y: ((h - y) ** 2).mean().reshape(1), ("fc2", "label"), "loss"),
    ]


class Evaluator:
    """Fetches the fed labels next to the predictions, so that metrics can be taken on the host."""

    def __init__(self, batch=1024, hidden=1024):
        shapes = {
            "image": (batch, hidden),
            "label": (batch, hidden),
            "fc1": (batch, 4 * hidden),
            "fc2": (batch, hidden),
            "loss": (1,),
        }
        self.exe = Executor(make_program(hidden), shapes)
        self.total = 0.0

    def consume(self, loader):
        previous = None
        for image, label in loader:
            handle = self.exe.run({"image": image, "label": label}, ["label", "fc2", "loss"])
            if previous is not None:
                self._account(previous.result())
            previous = handle
        if previous is not None:
            self._account(previous.result())
        return self.total

    def _account(self, out):
        self.total += float(((out["fc2"] - out["label"]) ** 2).mean() - out["loss"])


def main():
    data = [(torch.randn(1024, 1024).pin_memory(), torch.randn(1024, 1024).pin_memory()) for _ in range(8)]
    print(Evaluator().consume(data))


if __name__ == "__main__":
    main()
