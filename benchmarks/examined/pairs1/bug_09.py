"""Paged KV restore: blocks of resumed sequences come back layer by layer."""
import torch
from torch import nn


class KVRestorer:
    def __init__(self, device_pages, host_pages):
        self.device_pages = device_pages
        self.host_pages = host_pages
        self.stream = torch.cuda.Stream()
        self.layer_ready = {i: torch.cuda.Event() for i in range(len(device_pages))}

    def restore(self, pages):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for i, ready in self.layer_ready.items():
                ready.record()
                for host_id, dev_id in pages:
                    self.device_pages[i][dev_id].copy_(self.host_pages[i][host_id], non_blocking=True)

    def wait_layer(self, i):
        self.layer_ready[i].wait()


class Attention(nn.Module):
    def __init__(self, idx, restorer, width):
        super().__init__()
        self.idx = idx
        self.restorer = restorer
        self.qkv = nn.Linear(width, width, bias=False, device="cuda")

    def forward(self, h):
        q = self.qkv(h)
        self.restorer.wait_layer(self.idx)
        mem = self.restorer.device_pages[self.idx].flatten(0, 1)
        return h + nn.functional.scaled_dot_product_attention(q[None], mem[None], mem[None])[0]


@torch.no_grad()
def resume(num_layers=8, width=256, rounds=40):
    dev = [torch.zeros(16, 32, width, device="cuda") for _ in range(num_layers)]
    host = [torch.randn(128, 32, width).pin_memory() for _ in range(num_layers)]
    restorer = KVRestorer(dev, host)
    stack = nn.Sequential(*[Attention(i, restorer, width) for i in range(num_layers)])
    h = torch.randn(4, width, device="cuda")
    for r in range(rounds):
        restorer.restore([((r * 16 + j) % 128, j) for j in range(16)])
        h = stack(h)
    return h.cpu()


if __name__ == "__main__":
    print(resume())
