"""Two static device slots filled by a copy stream and consumed by a compiled step."""
import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SlotFeeder:
    def __init__(self, specs, device, depth=2):
        self.copy_stream = torch.cuda.Stream(device)
        self.slots = [
            {k: torch.empty(shape, dtype=dtype, device=device) for k, (shape, dtype) in specs.items()}
            for _ in range(depth)
        ]
        self.ready = [torch.cuda.Event() for _ in range(depth)]
        self.free = [torch.cuda.Event() for _ in range(depth)]
        for event in self.free:
            event.record()
        self.put_count = 0
        self.get_count = 0

    @property
    def depth(self):
        return len(self.slots)

    def put(self, host):
        i = self.put_count % self.depth
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(self.free[i])
            for name, dst in self.slots[i].items():
                dst.copy_(host[name], non_blocking=True)
            self.ready[i].record()
        self.put_count += 1

    def get(self):
        assert self.get_count < self.put_count
        i = self.get_count % self.depth
        torch.cuda.current_stream().wait_event(self.ready[i])
        return i, self.slots[i]

    def done(self, i):
        self.free[i].record()
        self.get_count += 1

    def feed(self, batches):
        it = iter(batches)
        for host in itertools.islice(it, self.depth):
            self.put(host)
        while self.get_count < self.put_count:
            i, slot = self.get()
            yield slot
            self.done(i)
            host = next(it, None)
            if host is not None:
                self.put(host)


def named(loader):
    for x, y in loader:
        yield {"x": x, "y": y}


def main():
    data = TensorDataset(torch.randn(8192, 512), torch.randint(0, 8, (8192,)))
    loader = DataLoader(data, batch_size=256, shuffle=True, pin_memory=True, drop_last=True)
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 8)).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    feeder = SlotFeeder(
        {"x": ((256, 512), torch.float32), "y": ((256,), torch.int64)}, torch.device("cuda"), depth=2
    )
    for step, slot in enumerate(feeder.feed(named(loader))):
        loss = nn.functional.cross_entropy(model(slot["x"]), slot["y"])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 16 == 0:
            print(step, float(loss))


if __name__ == "__main__":
    main()
