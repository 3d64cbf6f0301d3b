import torch
import torch.nn as nn


class HyperConnectionLayer(nn.Module):
    def __init__(self, hidden, streams):
        super().__init__()
        self.streams = streams
        self.hc_attn_fn = nn.Parameter(torch.randn(streams, hidden, hidden) * 0.02, requires_grad=False)
        self.out_proj = nn.Linear(hidden, hidden, bias=False)
        self.hc_attn_fn_broadcast = None

    def finalize_broadcast_weights(self):
        """Fold the per-stream matrices into the matrix used by the decode path."""
        summed = self.hc_attn_fn.data.sum(dim=0)
        self.hc_attn_fn_broadcast = summed.t().contiguous()

    def forward(self, x):
        return x + self.out_proj(torch.relu(x @ self.hc_attn_fn_broadcast))


class Model(nn.Module):
    def __init__(self, depth, hidden, streams=4):
        super().__init__()
        self.layers = nn.ModuleList(HyperConnectionLayer(hidden, streams) for _ in range(depth))

    def load_weights(self, weights):
        params = dict(self.named_parameters())
        loaded = set()
        for name, tensor in weights:
            params[name].data.copy_(tensor)
            loaded.add(name)
        for layer in self.layers:
            layer.finalize_broadcast_weights()
        return loaded

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class GraphRunner:
    def __init__(self, model, hidden, batch_sizes=(1, 4, 8)):
        self.model = model
        self.hidden = hidden
        self.batch_sizes = batch_sizes
        self.graphs = {}

    @torch.inference_mode()
    def capture(self):
        pool = None
        for bs in sorted(self.batch_sizes, reverse=True):
            inp = torch.zeros(bs, self.hidden, device="cuda")
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.model(inp)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                out = self.model(inp)
            pool = pool or graph.pool()
            self.graphs[bs] = (graph, inp, out)

    @torch.inference_mode()
    def decode(self, x):
        bs = next(b for b in sorted(self.batch_sizes) if b >= x.shape[0])
        graph, inp, out = self.graphs[bs]
        inp[: x.shape[0]].copy_(x)
        graph.replay()
        return out[: x.shape[0]].clone()


def rl_loop(iterations=8):
    hidden = 1024
    model = Model(4, hidden).cuda()
    trainer_state = {k: v.clone() for k, v in model.named_parameters()}
    model.load_weights(trainer_state.items())
    runner = GraphRunner(model, hidden)
    runner.capture()
    for _ in range(iterations):
        rollout = torch.randn(4, hidden, device="cuda")
        for _ in range(16):
            rollout = runner.decode(rollout)
        for v in trainer_state.values():
            v.add_(torch.randn_like(v), alpha=1e-3)
        model.load_weights(trainer_state.items())
    return rollout


if __name__ == "__main__":
    print(rl_loop().norm().item())
