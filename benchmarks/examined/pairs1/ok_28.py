"""Graph decode whose metadata upload is part of the captured work."""
import torch


class MetadataBuffers:
    def __init__(self, batch):
        self.host = torch.zeros(2, batch, dtype=torch.int64, pin_memory=True)
        self.device = torch.zeros(2, batch, dtype=torch.int64, device="cuda")

    def upload(self):
        self.device.copy_(self.host, non_blocking=True)


class GraphDecoder:
    def __init__(self, batch=32, dim=1024, pages=4096):
        self.meta = MetadataBuffers(batch)
        self.kv = torch.randn(pages, dim, device="cuda")
        self.rope = torch.randn(8192, dim, device="cuda")
        self.w = torch.randn(dim, dim, device="cuda") / 32
        self.consumed = torch.cuda.Event()
        self.graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._step()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.out = self._step()
        self.consumed.record()

    def _step(self):
        self.meta.upload()
        slots, positions = self.meta.device
        h = self.kv[slots] + self.rope[positions]
        return torch.tanh(h @ self.w)

    def decode(self, slots, positions):
        self.consumed.synchronize()
        self.meta.host[0] = torch.as_tensor(slots)
        self.meta.host[1] = torch.as_tensor(positions)
        self.graph.replay()
        self.consumed.record()
        return self.out.sum(-1)


@torch.no_grad()
def main(steps=200):
    decoder = GraphDecoder()
    sums = [decoder.decode([(s + i) % 4096 for i in range(32)], [s] * 32) for s in range(steps)]
    print(torch.stack(sums).mean().item())


if __name__ == "__main__":
    main()
