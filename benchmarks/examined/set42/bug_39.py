"""CUDA IPC connector between two pipeline stages living in two processes."""
from dataclasses import dataclass
from typing import Dict

import torch
import torch.multiprocessing as mp


@dataclass
class Meta:
    request_id: str
    rows: int
    last: bool = False


class IpcSender:
    """Stage output goes through one device buffer that both processes map."""

    def __init__(self, rows: int, dim: int, handles: mp.Queue, control: mp.Queue):
        self.buffer = torch.empty(rows, dim, device="cuda")
        self.control = control
        handles.put(self.buffer)

    def send(self, request_id: str, hidden: torch.Tensor, last: bool = False):
        rows = hidden.shape[0]
        self.buffer[:rows].copy_(hidden)
        torch.cuda.current_stream().synchronize()
        self.control.put(Meta(request_id, rows, last))


class IpcReceiver:
    def __init__(self, handles: mp.Queue, control: mp.Queue):
        self.buffer = handles.get()
        self.control = control

    def __iter__(self):
        while True:
            meta = self.control.get()
            yield meta, self.buffer[: meta.rows]
            if meta.last:
                return


class Decoder:
    def __init__(self, dim: int, layers: int = 24):
        gen = torch.Generator(device="cuda").manual_seed(0)
        self.weights = [
            torch.randn(dim, dim, device="cuda", generator=gen) / dim ** 0.5
            for _ in range(layers)
        ]

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(hidden @ self.weights[0])
        for w in self.weights[1:]:
            x = torch.tanh(x @ w) + hidden
        return x.mean()


def thinker(rows: int, dim: int, requests: int, handles, control, finished):
    torch.cuda.set_device(0)
    sender = IpcSender(rows, dim, handles, control)
    proj = torch.randn(dim, dim, device="cuda") / dim ** 0.5
    for i in range(requests):
        n = rows - (i % 7) * 16
        hidden = torch.randn(n, dim, device="cuda") @ proj
        sender.send(f"req-{i}", hidden, last=(i == requests - 1))
    finished.wait()


def talker(dim: int, handles, control, finished):
    torch.cuda.set_device(0)
    receiver = IpcReceiver(handles, control)
    decoder = Decoder(dim)
    outputs: Dict[str, torch.Tensor] = {}
    for meta, hidden in receiver:
        outputs[meta.request_id] = decoder(hidden)
    print(torch.stack(list(outputs.values())).mean().item())
    finished.set()


def main(rows: int = 4096, dim: int = 2048, requests: int = 64):
    ctx = mp.get_context("spawn")
    handles, control, finished = ctx.Queue(), ctx.Queue(), ctx.Event()
    producer = ctx.Process(target=thinker, args=(rows, dim, requests, handles, control, finished))
    consumer = ctx.Process(target=talker, args=(dim, handles, control, finished))
    producer.start()
    consumer.start()
    consumer.join()
    producer.join()


if __name__ == "__main__":
    main()
