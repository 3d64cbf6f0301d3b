"""Two captured stages replayed on two streams with a double-buffered mailbox between them."""
import torch
from torch import nn


class Stage:
    def __init__(self, fn, src: torch.Tensor, dst: torch.Tensor):
        self.graph = torch.cuda.CUDAGraph()
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            dst.copy_(fn(src))
        torch.cuda.current_stream().wait_stream(warm)
        with torch.cuda.graph(self.graph, stream=warm):
            dst.copy_(fn(src))

    def replay(self):
        self.graph.replay()


class TwoStage:
    def __init__(self, front: nn.Module, back: nn.Module, batch: int, dim: int):
        self.inp = torch.zeros(batch, dim, device="cuda")
        self.box = [torch.zeros(batch, dim, device="cuda") for _ in range(2)]
        self.out = torch.zeros(batch, dim, device="cuda")
        self.front = [Stage(front, self.inp, b) for b in self.box]
        self.back = [Stage(back, b, self.out) for b in self.box]
        self.s_front, self.s_back = torch.cuda.Stream(), torch.cuda.Stream()
        self.full = [torch.cuda.Event() for _ in range(2)]
        self.empty = [torch.cuda.Event() for _ in range(2)]
        for e in self.empty:
            e.record()

    def run(self, batches):
        results = []
        caller = torch.cuda.current_stream()
        self.s_front.wait_stream(caller)
        self.s_back.wait_stream(caller)
        for i, x in enumerate(batches):
            k = i & 1
            with torch.cuda.stream(self.s_front):
                self.s_front.wait_event(self.empty[k])
                self.inp.copy_(x)
                self.front[k].replay()
                self.full[k].record()
            with torch.cuda.stream(self.s_back):
                self.s_back.wait_event(self.full[k])
                self.back[k].replay()
                self.empty[k].record()
                results.append(self.out.clone())
        caller.wait_stream(self.s_front)
        caller.wait_stream(self.s_back)
        for r in results:
            r.record_stream(caller)
        return results


@torch.no_grad()
def main():
    dim = 1024
    front = nn.Sequential(nn.Linear(dim, dim), nn.GELU()).cuda()
    back = nn.Sequential(nn.Linear(dim, dim), nn.Tanh()).cuda()
    pipe = TwoStage(front, back, 64, dim)
    for _ in range(3):
        batches = [torch.randn(64, dim, device="cuda") for _ in range(7)]
        outs = pipe.run(batches)
        print(torch.stack(outs).square().mean().item())


if __name__ == "__main__":
    main()
