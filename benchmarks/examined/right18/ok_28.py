"""A captured attention layer whose projections run side by side."""
import torch
import torch.nn.functional as F


class CapturedAttention:
    def __init__(self, width, heads, tokens, device="cuda", dtype=torch.float16):
        self.device = torch.device(device)
        self.heads, self.tokens, self.width = heads, tokens, width
        make = lambda: torch.randn(width, width, device=device, dtype=dtype) / width**0.5
        self.wq, self.wk, self.wv, self.wo = make(), make(), make(), make()
        self.k_stream = torch.cuda.Stream(self.device)
        self.v_stream = torch.cuda.Stream(self.device)
        self.x = torch.zeros(tokens, width, device=device, dtype=dtype)
        self.graph = torch.cuda.CUDAGraph()
        self.done = torch.cuda.Event()
        self._warm()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.y = self._layer(self.x)

    def _warm(self):
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(3):
                self._layer(self.x)
        torch.cuda.current_stream(self.device).wait_stream(stream)

    def _split(self, t):
        return t.view(self.tokens, self.heads, -1).transpose(0, 1)

    def _layer(self, x):
        main = torch.cuda.current_stream(self.device)
        start = torch.cuda.Event()
        start.record(main)
        projected = []
        for stream, weight in ((self.k_stream, self.wk), (self.v_stream, self.wv)):
            stream.wait_event(start)
            with torch.cuda.stream(stream):
                projected.append(F.linear(x, weight))
        q = F.linear(x, self.wq)
        main.wait_stream(self.k_stream)
        main.wait_stream(self.v_stream)
        k, v = projected
        att = F.scaled_dot_product_attention(
            self._split(q), self._split(k), self._split(v)
        )
        out = F.linear(att.transpose(0, 1).reshape(self.tokens, self.width), self.wo)
        self.k_stream.wait_stream(main)
        self.v_stream.wait_stream(main)
        del k, v, projected
        main.wait_stream(self.k_stream)
        main.wait_stream(self.v_stream)
        return out

    @torch.no_grad()
    def __call__(self, x):
        if x.shape[0] != self.tokens:
            raise ValueError("fixed number of tokens")
        here = torch.cuda.current_stream(self.device)
        here.wait_event(self.done)
        self.x.copy_(x)
        self.graph.replay()
        result = self.y.clone()
        self.done.record(here)
        return result


def stack(depth=4, tokens=128, width=512):
    layers = [CapturedAttention(width, 8, tokens) for _ in range(depth)]

    def forward(x):
        for layer in layers:
            x = x + layer(x)
        return x

    return forward
