"""Growable scratch shared by eager prefill and captured decode steps."""
import torch


class ScratchRegistry:
    """Hands out scratch by name; blocks that were outgrown are retired, not dropped."""

    def __init__(self, device):
        self.device = torch.device(device)
        self._live = {}
        self._retired = []

    def request(self, name, numel):
        buf = self._live.get(name)
        if buf is None or buf.numel() < numel:
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError("scratch must be sized before capture")
            if buf is not None:
                self._retired.append(buf)
            buf = torch.empty(numel, device=self.device)
            self._live[name] = buf
        return buf

    def retired_bytes(self):
        return sum(b.numel() * b.element_size() for b in self._retired)


class MoeBlock:
    def __init__(self, hidden, experts, scratch):
        self.scratch = scratch
        self.experts = experts
        self.w = torch.randn(experts, hidden, hidden, device=scratch.device) / hidden ** 0.5

    def forward(self, x):
        m, h = x.shape
        need = self.experts * m * h
        out = self.scratch.request("experts", need)[:need].view(self.experts, m, h)
        torch.matmul(x.unsqueeze(0), self.w, out=out)
        return out.mean(0)


class CapturedStep:
    def __init__(self, block, batch, hidden, pool=None):
        self.x = torch.zeros(batch, hidden, device=block.scratch.device)
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(2):
                block.forward(self.x)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.y = block.forward(self.x)

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()


class Session:
    def __init__(self, hidden=256):
        self.scratch = ScratchRegistry("cuda:0")
        self.block = MoeBlock(hidden, 8, self.scratch)
        self.decode = CapturedStep(self.block, 4, hidden)

    def serve(self, prompt, steps):
        h = self.block.forward(prompt)[:4].contiguous()
        for _ in range(steps):
            h = self.decode(torch.tanh(h))
        return h


def main():
    s = Session()
    for length in (32, 512, 4096):
        y = s.serve(torch.randn(length, 256, device="cuda:0"), 16)
        print(length, y.norm().item(), s.scratch.retired_bytes())


if __name__ == "__main__":
    main()
