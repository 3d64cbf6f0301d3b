"""One executor thread per stream, with dependencies between tasks."""
from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from typing import NamedTuple

import torch


class Token(NamedTuple):
    value: torch.Tensor
    event: torch.cuda.Event


class StreamExecutor(threading.Thread):
    def __init__(self, name: str):
        super().__init__(name=name, daemon=True)
        self.stream = torch.cuda.Stream()
        self.tasks: queue.Queue = queue.Queue()
        self.start()

    def run(self):
        with torch.inference_mode(), torch.cuda.stream(self.stream):
            while (task := self.tasks.get()) is not None:
                fn, deps, future = task
                try:
                    args = []
                    for dep in deps:
                        value, event = dep.result()
                        self.stream.wait_event(event)
                        value.record_stream(self.stream)
                        args.append(value)
                    out = fn(*args)
                    future.set_result(Token(out, self.stream.record_event()))
                except Exception as exc:
                    future.set_exception(exc)
                del task

    def submit(self, fn, *deps: Future) -> Future:
        future: Future = Future()
        self.tasks.put((fn, deps, future))
        return future

    def stop(self):
        self.tasks.put(None)
        self.join()


def collect(future: Future) -> torch.Tensor:
    value, event = future.result()
    event.synchronize()
    return value.cpu()


def main():
    load, left, right = (StreamExecutor(n) for n in ("load", "left", "right"))
    results = []
    for i in range(10):
        x = load.submit(lambda i=i: torch.full((256, 256), i / 10, device="cuda"))
        a = left.submit(lambda v: v @ v, x)
        b = right.submit(torch.sin, x)
        results.append(left.submit(torch.add, a, b))
    print(sum(collect(r).sum().item() for r in results))
    for ex in (load, left, right):
        ex.stop()


if __name__ == "__main__":
    main()
