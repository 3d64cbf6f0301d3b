import itertools
from collections import deque

import torch


def cuda_prefetch(iterable, depth=3, device="cuda"):
    """Yield device copies of pinned host batches, ``depth`` batches ahead."""
    stream = torch.cuda.Stream(device)
    ahead = deque()
    source = iter(iterable)

    def fill(count):
        for batch in itertools.islice(source, count):
            with torch.cuda.stream(stream):
                on_device = tuple(t.to(device, non_blocking=True) for t in batch)
                ahead.append((batch, on_device, stream.record_event()))

    fill(depth)
    while ahead:
        _, on_device, event = ahead.popleft()
        torch.cuda.current_stream(device).wait_event(event)
        for t in on_device:
            t.record_stream(torch.cuda.current_stream(device))
        fill(1)
        yield on_device


def synthetic(n):
    for _ in range(n):
        yield torch.randn(256, 128).pin_memory(), torch.randint(0, 10, (256,)).pin_memory()


def train():
    net = torch.nn.Sequential(torch.nn.Linear(128, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    seen = 0
    for x, y in cuda_prefetch(synthetic(200)):
        loss = torch.nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen += x.shape[0]
    return seen, loss.item()


if __name__ == "__main__":
    print(train())
