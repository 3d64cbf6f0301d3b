from __future__ import annotations

import torch
import torch.multiprocessing as mp

BUCKET = 1 << 22


class BucketSender:
    """Publishes weight buckets through one shared device buffer."""

    def __init__(self, requests: mp.Queue, replies: mp.Queue) -> None:
        self.requests, self.replies = requests, replies
        self.buffer = torch.empty(BUCKET, dtype=torch.uint8, device="cuda")
        self.event = torch.cuda.Event(interprocess=True)
        self.event.record()
        self.opened = False

    def send(self, named: dict[str, torch.Tensor]) -> None:
        self.event.wait()
        layout, offset = [], 0
        for name, t in named.items():
            raw = t.contiguous().view(-1).view(torch.uint8)
            self.buffer[offset : offset + raw.numel()].copy_(raw)
            layout.append((name, tuple(t.shape), t.dtype, offset, raw.numel()))
            offset += raw.numel()
        self.event.record()
        message = {"layout": layout}
        if not self.opened:
            message["buffer"] = self.buffer
            message["event"] = self.event.ipc_handle()
            self.opened = True
        self.requests.put(message)
        assert self.replies.get() == "loaded"

    def close(self) -> None:
        self.requests.put(None)
        self.replies.get()


def receiver(requests: mp.Queue, replies: mp.Queue, shapes: dict[str, tuple[int, ...]]) -> None:
    torch.cuda.set_device(0)
    weights = {n: torch.zeros(s, device="cuda") for n, s in shapes.items()}
    buffer = event = None
    while (message := requests.get()) is not None:
        if "buffer" in message:
            buffer = message["buffer"]
            event = torch.cuda.Event.from_ipc_handle(torch.device("cuda", 0), message["event"])
        event.wait()
        for name, shape, dtype, offset, nbytes in message["layout"]:
            weights[name].copy_(buffer[offset : offset + nbytes].view(dtype).view(shape))
        event.record()
        replies.put("loaded")
    print({n: w.double().sum().item() for n, w in weights.items()})
    del buffer
    replies.put("closed")


def main() -> None:
    ctx = mp.get_context("spawn")
    requests, replies = ctx.Queue(), ctx.Queue()
    shapes = {"wq": (256, 256), "wk": (256, 256), "wo": (256, 512)}
    child = ctx.Process(target=receiver, args=(requests, replies, shapes))
    child.start()
    sender = BucketSender(requests, replies)
    weights = {n: torch.randn(s, device="cuda") for n, s in shapes.items()}
    for _ in range(10):
        for w in weights.values():
            w.mul_(0.99).add_(0.01)
        for n, w in weights.items():
            sender.send({n: w})
    sender.close()
    child.join()


if __name__ == "__main__":
    main()
