import torch
import torch.nn as nn


class Denoiser(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.inp = nn.Conv2d(4, ch, 3, padding=1)
        self.temb = nn.Linear(1, ch)
        self.mid = nn.Conv2d(ch, ch, 3, padding=1)
        self.out = nn.Conv2d(ch, 4, 3, padding=1)
        self.ctx = nn.Linear(768, ch)

    def forward(self, sample, timestep, context, stale):
        h = self.inp(sample) + self.temb(timestep)[:, :, None, None]
        h = torch.relu(h + self.ctx(context).mean(1)[:, :, None, None])
        h = h + 0.1 * stale
        h = torch.relu(self.mid(h))
        stale.copy_(h)
        return self.out(h)


class GraphedPipeline:
    """One graph for the warm-up step, one for the step after it and one for the rest."""

    def __init__(self, model, shape, ctx_len):
        self.model = model
        self.static_inputs = {
            "sample": torch.zeros(shape, device="cuda"),
            "timestep": torch.zeros(shape[0], 1, device="cuda"),
            "context": torch.zeros(shape[0], ctx_len, 768, device="cuda"),
        }
        self.stale = torch.zeros(shape[0], model.mid.out_channels, *shape[2:], device="cuda")
        self.cuda_graphs = []
        self.static_outputs = []

    @torch.inference_mode()
    def prepare(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model(**self.static_inputs, stale=self.stale)
        torch.cuda.current_stream().wait_stream(side)
        for _ in range(3):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = self.model(**self.static_inputs, stale=self.stale)
            self.cuda_graphs.append(graph)
            self.static_outputs.append(out)
        self.stale.zero_()

    @torch.inference_mode()
    def denoise(self, step, **kwargs):
        for name, buf in self.static_inputs.items():
            buf.copy_(kwargs[name])
        idx = min(step, 2)
        self.cuda_graphs[idx].replay()
        return self.static_outputs[idx].clone()

    @torch.inference_mode()
    def __call__(self, latents, context, steps):
        self.stale.zero_()
        previous = None
        for i in range(steps):
            t = torch.full((latents.shape[0], 1), 1.0 - i / steps, device="cuda")
            eps = self.denoise(i, sample=latents, timestep=t, context=context)
            direction = eps if previous is None else 1.5 * eps - 0.5 * previous
            latents = latents - direction / steps
            previous = eps
        return latents


def main():
    pipe = GraphedPipeline(Denoiser(64).cuda().eval(), (2, 4, 64, 64), 77)
    pipe.prepare()
    for _ in range(4):
        image = pipe(torch.randn(2, 4, 64, 64, device="cuda"), torch.randn(2, 77, 768, device="cuda"), 50)
    print(image.std().item())


if __name__ == "__main__":
    main()
