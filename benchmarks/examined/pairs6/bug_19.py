"""Frozen backbone with group offloading, used by a probe that is trained on top of it."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModuleGroup:
    def __init__(self, module, stream):
        self.module = module
        self.stream = stream
        self.cpu = {name: p.data.cpu().pin_memory() for name, p in module.named_parameters()}
        self.loaded = torch.cuda.Event()
        self.following = None
        self.resident = False
        for name, p in module.named_parameters():
            p.data = self.cpu[name]
            p.requires_grad_(False)

    def onload(self):
        if self.resident:
            return
        with torch.cuda.stream(self.stream):
            for name, p in self.module.named_parameters():
                p.data = self.cpu[name].to("cuda", non_blocking=True)
            self.loaded.record(self.stream)
        self.resident = True

    def offload(self):
        for name, p in self.module.named_parameters():
            p.data = self.cpu[name]
        self.resident = False


def apply_group_offloading(blocks):
    stream = torch.cuda.Stream()
    groups = [ModuleGroup(block, stream) for block in blocks]
    for group, following in zip(groups, groups[1:]):
        group.following = following

    def before(group):
        def hook(module, args):
            group.onload()
            if group.following is not None:
                group.following.onload()
            torch.cuda.current_stream().wait_event(group.loaded)
        return hook

    for group in groups:
        group.module.register_forward_pre_hook(before(group))
        group.module.register_forward_hook(lambda module, args, out, g=group: g.offload())


def main():
    blocks = [nn.Sequential(nn.Linear(4096, 4096), nn.GELU()) for _ in range(24)]
    backbone = nn.Sequential(*blocks)
    apply_group_offloading(blocks)
    probe = nn.Linear(4096, 100).cuda()
    optimizer = torch.optim.SGD(probe.parameters(), lr=0.1)
    for _ in range(500):
        x = torch.randn(2048, 4096, device="cuda")
        y = torch.randint(0, 100, (2048,), device="cuda")
        with torch.no_grad():
            features = backbone(x)
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(probe(features), y).backward()
        optimizer.step()
    torch.save(probe.state_dict(), "probe.pt")


if __name__ == "__main__":
    main()
