"""Host tier of a paged KV cache: fetched pages are handed out through tickets."""
import torch


class Ticket:
    def __init__(self, event, pages):
        self.event = event
        self.pages = pages

    def wait(self):
        torch.cuda.current_stream().wait_event(self.event)
        return self.pages


class HostTier:
    def __init__(self, capacity, page_shape):
        self.store = torch.zeros((capacity, *page_shape), pin_memory=True)
        self.stream = torch.cuda.Stream()

    def fill(self, index, page):
        self.store[index].copy_(page)

    def fetch(self, indices, out):
        self.stream.wait_stream(torch.cuda.current_stream())
        event = torch.cuda.Event()
        with torch.cuda.stream(self.stream):
            event.record()
            for row, index in enumerate(indices):
                out[row].copy_(self.store[index], non_blocking=True)
        return Ticket(event, out)


class PrefixAttention:
    def __init__(self, tier, heads, dim, max_pages):
        self.tier = tier
        self.buffer = torch.empty(max_pages, 16, heads, dim, device="cuda")
        self.wq = torch.randn(heads * dim, heads * dim, device="cuda")
        self.heads, self.dim = heads, dim

    def __call__(self, x, prefix):
        ticket = self.tier.fetch(prefix, self.buffer)
        q = (x @ self.wq).view(-1, self.heads, self.dim)
        keys = ticket.wait()[: len(prefix)].flatten(0, 1)
        weights = torch.einsum("qhd,khd->hqk", q, keys).softmax(-1)
        return torch.einsum("hqk,khd->qhd", weights, keys).flatten(1)


@torch.no_grad()
def main():
    heads, dim = 8, 64
    tier = HostTier(256, (16, heads, dim))
    for i in range(256):
        tier.fill(i, torch.randn(16, heads, dim))
    attention = PrefixAttention(tier, heads, dim, max_pages=32)
    x = torch.randn(4, heads * dim, device="cuda")
    for step in range(16):
        x = x + attention(x, list(range(step, step + 32)))
    print(x.abs().mean().item())


if __name__ == "__main__":
    main()
