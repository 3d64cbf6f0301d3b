import torch
import torch.nn as nn


class TapEncoder(nn.Module):
    """Encoder whose first projection is kept for a downstream probe."""

    def __init__(self, dim_in, inner, dim_out):
        super().__init__()
        self.linear1 = nn.Linear(dim_in, inner)
        self.linear2 = nn.Linear(inner, dim_out)
        self.x = None

    def forward(self, inp):
        res = self.linear1(inp)
        self.x = res
        return self.linear2(torch.relu(res))


class GraphedEncoder:
    """One captured graph per batch size around a TapEncoder."""

    def __init__(self, model, dim_in, device="cuda"):
        self.model = model.to(device).eval()
        self.dim_in = dim_in
        self.device = torch.device(device)
        self.entries = {}

    def _warmup(self, static_in):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.model(static_in)
        torch.cuda.current_stream().wait_stream(side)

    def _capture(self, batch):
        static_in = torch.zeros((batch, self.dim_in), device=self.device)
        self._warmup(static_in)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            static_out = self.model(static_in)
        return graph, static_in, static_out

    @torch.no_grad()
    def __call__(self, inp):
        batch = inp.shape[0]
        if batch not in self.entries:
            self.entries[batch] = self._capture(batch)
        graph, static_in, static_out = self.entries[batch]
        static_in.copy_(inp)
        graph.replay()
        return static_out.clone()


class ProbeServer:
    def __init__(self, encoder, probe):
        self.encoder = encoder
        self.probe = probe.to(encoder.device).eval()

    def _reset_tap(self, batch):
        inner = self.encoder.model.linear1.out_features
        self.encoder.model.x = torch.zeros((batch, inner), device=self.encoder.device)

    @torch.no_grad()
    def handle(self, request):
        inp = request.to(self.encoder.device)
        self._reset_tap(inp.shape[0])
        out = self.encoder(inp)
        score = self.probe(self.encoder.model.x)
        return out.cpu(), score.cpu()


def serve(requests, dim_in=256, inner=1024, dim_out=256, batch=32):
    encoder = GraphedEncoder(TapEncoder(dim_in, inner, dim_out), dim_in)
    server = ProbeServer(encoder, nn.Linear(inner, 1))
    encoder(torch.zeros((batch, dim_in), device=encoder.device))
    results = []
    for request in requests:
        results.append(server.handle(request))
    return results
