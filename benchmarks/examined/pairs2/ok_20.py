"""Frozen backbone streamed from host memory block by block."""
import torch
import torch.nn as nn


class StreamedBlocks:
    def __init__(self, blocks, device="cuda"):
        self.blocks = blocks
        self.device = torch.device(device)
        self.copy_stream = torch.cuda.Stream()
        self.host = [{n: p.detach().pin_memory() for n, p in b.named_parameters()} for b in blocks]
        self.resident = {}

    def _fetch(self, index):
        if index >= len(self.blocks) or index in self.resident:
            return
        with torch.cuda.stream(self.copy_stream):
            weights = {n: t.to(self.device, non_blocking=True) for n, t in self.host[index].items()}
            self.resident[index] = (weights, self.copy_stream.record_event())

    def _release(self, index):
        weights, _ = self.resident.pop(index)
        compute = torch.cuda.current_stream()
        for t in weights.values():
            t.record_stream(compute)

    @torch.no_grad()
    def forward(self, x):
        self._fetch(0)
        for index, block in enumerate(self.blocks):
            self._fetch(index + 1)
            weights, arrived = self.resident[index]
            torch.cuda.current_stream().wait_event(arrived)
            x = torch.func.functional_call(block, weights, (x,))
            del weights
            self._release(index)
        return x


def main():
    blocks = [nn.Sequential(nn.Linear(4096, 4096), nn.GELU()) for _ in range(20)]
    backbone = StreamedBlocks(blocks)
    probe = nn.Linear(4096, 100).cuda()
    opt = torch.optim.SGD(probe.parameters(), lr=0.1)
    for _ in range(50):
        feats = backbone.forward(torch.randn(64, 4096, device="cuda"))
        target = torch.randint(0, 100, (64,), device="cuda")
        loss = nn.functional.cross_entropy(probe(feats), target)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
