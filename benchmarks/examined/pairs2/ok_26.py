"""Gloo reduction of statistics that come from the device."""
import torch
import torch.distributed as dist
import torch.nn as nn


class CpuStatsReducer:
    def __init__(self, keys, group):
        self.keys = keys
        self.group = group
        self.host = torch.zeros(len(keys), dtype=torch.float64, pin_memory=True)
        self.copied = torch.cuda.Event()
        self.dirty = False

    def stage(self, **values):
        packed = torch.stack([values[k].double() for k in self.keys])
        self.host.copy_(packed, non_blocking=True)
        self.copied.record()
        self.dirty = True

    def reduce(self):
        if not self.dirty:
            return {}
        self.copied.synchronize()
        dist.all_reduce(self.host, group=self.group)
        self.dirty = False
        return dict(zip(self.keys, (self.host / dist.get_world_size(self.group)).tolist()))


def main():
    dist.init_process_group("cpu:gloo,cuda:nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    gloo = dist.new_group(backend="gloo")
    model = nn.Linear(1024, 10).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    stats = CpuStatsReducer(("loss", "accuracy"), gloo)
    for step in range(200):
        x = torch.randn(256, 1024, device="cuda")
        y = torch.randint(0, 10, (256,), device="cuda")
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(stats.reduce())
            stats.stage(loss=loss.detach(), accuracy=(logits.argmax(-1) == y).double().mean())
    print(stats.reduce())


if __name__ == "__main__":
    main()
