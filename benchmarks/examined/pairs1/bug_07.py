"""Piecewise decode with cached executables for the usual batch shapes."""
import collections

import torch


class DecodeGraphPool:
    def __init__(self, forward, hidden_size):
        self.forward = forward
        self.hidden_size = hidden_size
        self.entries = {}
        self.mem_pool = torch.cuda.graph_pool_handle()

    def _capture(self, bs):
        buf = torch.zeros(bs, self.hidden_size, device="cuda")
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(2):
                self.forward(buf)
        torch.cuda.current_stream().wait_stream(warm)
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g, pool=self.mem_pool):
            out = self.forward(buf)
        self.entries[bs] = (g, buf, out)

    def run(self, hidden):
        n = hidden.size(0)
        bs = 1 << (n - 1).bit_length()
        if bs not in self.entries:
            self._capture(bs)
        g, buf, out = self.entries[bs]
        buf[:n].copy_(hidden)
        g.replay()
        return out[:n]


@torch.inference_mode()
def serve(steps=64):
    w = torch.randn(768, 768, device="cuda") / 28
    head = torch.randn(768, 32000, device="cuda")
    pool = DecodeGraphPool(lambda h: torch.relu(h @ w) @ head, 768)
    waiting = collections.deque()
    generated = []
    for step in range(steps):
        waiting.append((step, pool.run(torch.randn(8, 768, device="cuda"))))
        if len(waiting) == 2:
            sid, logits = waiting.popleft()
            generated.append((sid, logits.argmax(-1).tolist()))
    return generated


if __name__ == "__main__":
    print(len(serve()))
