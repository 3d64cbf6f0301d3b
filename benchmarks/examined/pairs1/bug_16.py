"""Decode step captured once, with the bookkeeping of positions on a helper stream."""
import torch


class DecodeState:
    def __init__(self, batch, dim, max_len):
        self.positions = torch.zeros(batch, dtype=torch.int64, device="cuda")
        self.hidden = torch.randn(batch, dim, device="cuda")
        self.cache = torch.zeros(batch, max_len, dim, device="cuda")
        self.rope = torch.randn(max_len, dim, device="cuda")
        self.one = torch.ones(batch, dtype=torch.int64, device="cuda")


class CapturedDecoder:
    def __init__(self, state, dim):
        self.state = state
        self.w = torch.randn(dim, dim, device="cuda") / dim ** 0.5
        self.helper = torch.cuda.Stream()
        self.rows = torch.arange(state.positions.numel(), device="cuda")
        self.graph = None
        torch.cuda.synchronize()

    def _advance(self):
        with torch.cuda.stream(self.helper):
            self.state.positions.add_(self.state.one)

    def _forward(self):
        s = self.state
        h = torch.tanh((s.hidden + s.rope[s.positions]) @ self.w)
        s.cache[self.rows, s.positions] = h
        s.hidden.copy_(h)
        self._advance()

    def capture(self):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._forward()
        torch.cuda.synchronize()
        self.state.positions.zero_()

    def step(self):
        self.graph.replay()
        return self.state.hidden.clone()


def main(batch=16, dim=768, steps=64):
    state = DecodeState(batch, dim, 512)
    decoder = CapturedDecoder(state, dim)
    decoder.capture()
    outputs = [decoder.step() for _ in range(steps)]
    print(torch.stack(outputs).norm().item(), state.cache.abs().sum().item())


if __name__ == "__main__":
    main()
