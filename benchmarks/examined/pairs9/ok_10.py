"""Embedding extraction; a background thread moves results to the host and keeps them."""
import queue
import threading

import torch
from torch import nn


class HostWriter(threading.Thread):
    def __init__(self, device, depth=8):
        super().__init__(daemon=True)
        self.device = device
        self.jobs = queue.Queue(depth)
        self.results = {}

    def submit(self, key, tensor):
        produced = torch.cuda.Event()
        produced.record()
        self.jobs.put((key, tensor, produced))

    def close(self):
        self.jobs.put(None)
        self.join()

    def run(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(stream):
            while True:
                job = self.jobs.get()
                if job is None:
                    break
                key, tensor, produced = job
                stream.wait_event(produced)
                host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
                host.copy_(tensor, non_blocking=True)
                stream.synchronize()
                self.results[key] = host.clone()
                del job, tensor


class Embedder(nn.Module):
    def __init__(self, dim_in=768, dim=256):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim_in, 2048), nn.ReLU(), nn.Linear(2048, dim))

    def forward(self, x):
        return nn.functional.normalize(self.net(x), dim=-1)


@torch.inference_mode()
def extract(batches):
    device = torch.device("cuda", 0)
    model = Embedder().to(device).eval()
    writer = HostWriter(device)
    writer.start()
    compute = torch.cuda.Stream(device)
    compute.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(compute):
        for i in range(batches):
            x = torch.randn(512, 768, device=device)
            writer.submit(i, model(x))
    writer.close()
    return torch.cat([writer.results[i] for i in range(batches)])


if __name__ == "__main__":
    print(extract(64).mean())
