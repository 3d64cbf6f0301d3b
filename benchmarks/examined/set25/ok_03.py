import torch
import torch.nn as nn


class DiT(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.GELU()) for _ in range(depth))
        self.time = nn.Linear(1, dim)

    def forward(self, hidden_states, timestep):
        x = hidden_states + self.time(timestep)[:, None]
        for block in self.blocks:
            x = x + block(x)
        return x


class Entry:
    def __init__(self, args):
        self.static_args = [a.clone() for a in args]
        self.graph = torch.cuda.CUDAGraph()
        self.output = None


class GraphedForward:
    """Sits in the forward slot of a denoiser and replays one graph per input shape."""

    def __init__(self, module, max_entries=4):
        self.module = module
        self.eager = type(module).forward
        self.entries = {}
        self.max_entries = max_entries

    def _capture(self, args):
        entry = Entry(args)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.eager(self.module, *entry.static_args)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(entry.graph):
            entry.output = self.eager(self.module, *entry.static_args)
        return entry

    def __call__(self, *args):
        key = tuple((a.shape, a.dtype) for a in args)
        entry = self.entries.get(key)
        if entry is None:
            if len(self.entries) >= self.max_entries:
                return self.eager(self.module, *args)
            entry = self.entries[key] = self._capture(args)
        for dst, src in zip(entry.static_args, args):
            dst.copy_(src)
        entry.graph.replay()
        return entry.output.clone()

    def reset(self):
        torch.cuda.synchronize()
        self.entries.clear()


def swap_parameters(model, graphed, scale):
    graphed.reset()
    for block in model.blocks:
        block[1].weight = nn.Parameter(block[1].weight.detach() * scale)


@torch.no_grad()
def main():
    model = DiT(512, 6).cuda().eval()
    graphed = GraphedForward(model)
    model.forward = graphed
    outputs = []
    for scale in (1.0, 0.9, 1.1):
        swap_parameters(model, graphed, scale)
        for tokens in (256, 1024):
            latents = torch.randn(2, tokens, 512, device="cuda")
            cond = uncond = None
            for i in range(20):
                t = torch.full((2, 1), 1 - i / 20, device="cuda")
                cond = model(latents, t)
                uncond = model(latents * 0.5, t)
                latents = latents - 0.02 * (uncond + 3.0 * (cond - uncond))
            outputs.append(latents.std())
    print(torch.stack(outputs).tolist())


if __name__ == "__main__":
    main()
