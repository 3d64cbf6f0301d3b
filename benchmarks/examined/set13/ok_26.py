import torch
import torch.nn as nn


class TwoBranchBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.attn = nn.Linear(dim, dim)
        self.gate = nn.Linear(dim, dim)
        self.side = torch.cuda.Stream()

    def forward(self, x):
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            g = torch.sigmoid(self.gate(x))
        a = torch.relu(self.attn(x))
        main.wait_stream(self.side)
        if not torch.cuda.is_current_stream_capturing():
            x.record_stream(self.side)
            g.record_stream(main)
        return x + a * g


class GraphedModel:
    def __init__(self, model, example, warmup=3):
        self.model = model.eval()
        self.static_x = example.clone()
        self.graph = torch.cuda.CUDAGraph()
        self.capture_stream = torch.cuda.Stream()
        self._capture(warmup)

    @torch.no_grad()
    def _capture(self, warmup):
        s = self.capture_stream
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            for _ in range(warmup):
                self.model(self.static_x)
        torch.cuda.current_stream().wait_stream(s)
        with torch.cuda.graph(self.graph, stream=s):
            self.static_out = self.model(self.static_x)

    @torch.no_grad()
    def __call__(self, x):
        self.static_x.copy_(x, non_blocking=True)
        self.graph.replay()
        return self.static_out.clone()


def run(batches, dim=1024, depth=8):
    model = nn.Sequential(*[TwoBranchBlock(dim) for _ in range(depth)]).cuda()
    example = torch.zeros(64, dim, device="cuda")
    graphed = GraphedModel(model, example)
    outputs = [graphed(b) for b in batches]
    torch.cuda.synchronize()
    return [o.cpu() for o in outputs]
