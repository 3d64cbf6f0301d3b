"""Embedding pipeline where device results change threads along with a fence."""
import queue
import threading
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Parcel:
    tag: int
    tensor: torch.Tensor
    fence: torch.cuda.Event

    def open_on(self, stream):
        stream.wait_event(self.fence)
        self.tensor.record_stream(stream)
        return self.tensor


class CoreWorker(threading.Thread):
    def __init__(self, model, inbox, outbox, device):
        super().__init__(daemon=True)
        self.model, self.inbox, self.outbox = model, inbox, outbox
        self.device = device
        self.stream = torch.cuda.Stream(device)

    @torch.inference_mode()
    def run(self):
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.stream):
            while (job := self.inbox.get()) is not None:
                tag, batch = job
                hidden = self.model(batch.to(self.device, non_blocking=True))
                self.outbox.put(Parcel(tag, hidden, self.stream.record_event()))
        self.outbox.put(None)


class PostWorker(threading.Thread):
    def __init__(self, inbox, sink, device):
        super().__init__(daemon=True)
        self.inbox, self.sink = inbox, sink
        self.device = device

    @torch.inference_mode()
    def run(self):
        torch.cuda.set_device(self.device)
        mine = torch.cuda.current_stream(self.device)
        while (parcel := self.inbox.get()) is not None:
            hidden = parcel.open_on(mine)
            scaled = hidden / hidden.norm(dim=-1, keepdim=True)
            self.sink[parcel.tag] = scaled.cpu()


class Server:
    def __init__(self, model, device):
        self.to_core, self.to_post = queue.Queue(8), queue.Queue(8)
        self.sink = {}
        torch.cuda.synchronize(device)
        self.core = CoreWorker(model, self.to_core, self.to_post, device)
        self.post = PostWorker(self.to_post, self.sink, device)

    def run(self, batches):
        self.core.start()
        self.post.start()
        for tag, batch in enumerate(batches):
            self.to_core.put((tag, batch.pin_memory()))
        self.to_core.put(None)
        self.core.join()
        self.post.join()
        return torch.stack([self.sink[t] for t in sorted(self.sink)])


def main():
    device = torch.device("cuda:0")
    model = nn.Sequential(*[nn.Sequential(nn.Linear(768, 768), nn.GELU())
                            for _ in range(6)]).to(device).eval()
    out = Server(model, device).run([torch.randn(128, 768) for _ in range(10)])
    print(out.shape, out.norm(dim=-1).mean().item())


if __name__ == "__main__":
    main()
