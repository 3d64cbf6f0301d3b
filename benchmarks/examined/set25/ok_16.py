import torch
import torch.nn as nn


class LoraLinear(nn.Module):
    """Linear layer with one adapter whose rank is padded to max_rank."""

    def __init__(self, base, max_rank):
        super().__init__()
        self.base = base
        self.lora_a = nn.Parameter(torch.zeros(max_rank, base.in_features), requires_grad=False)
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, max_rank), requires_grad=False)
        self.register_buffer("scaling", torch.ones(()))

    def forward(self, x):
        delta = nn.functional.linear(nn.functional.linear(x, self.lora_a), self.lora_b)
        return self.base(x) + delta * self.scaling


class UNetBlock(nn.Module):
    def __init__(self, dim, max_rank):
        super().__init__()
        self.to_q = LoraLinear(nn.Linear(dim, dim), max_rank)
        self.to_v = LoraLinear(nn.Linear(dim, dim), max_rank)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        h = self.norm(x)
        return x + torch.sigmoid(self.to_q(h)) * self.to_v(h)


@torch.no_grad()
def hotswap_adapter(model, state_dict, scaling):
    """Replace the adapter weights without changing any tensor object."""
    for name, module in model.named_modules():
        if not isinstance(module, LoraLinear):
            continue
        a = state_dict[f"{name}.lora_a"]
        b = state_dict[f"{name}.lora_b"]
        rank = a.shape[0]
        module.lora_a.zero_()
        module.lora_b.zero_()
        module.lora_a[:rank].copy_(a)
        module.lora_b[:, :rank].copy_(b)
        module.scaling.fill_(scaling)


class CompiledUNet:
    def __init__(self, model, tokens, dim):
        self.model = model
        self.sample = torch.zeros(tokens, dim, device="cuda")
        self.out = None
        self.graph = torch.cuda.CUDAGraph()

    @torch.inference_mode()
    def record(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.model(self.sample)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(self.graph):
            self.out = self.model(self.sample)

    @torch.inference_mode()
    def __call__(self, sample):
        self.sample.copy_(sample)
        self.graph.replay()
        return self.out.clone()


def random_adapter(model, rank):
    state = {}
    for name, module in model.named_modules():
        if isinstance(module, LoraLinear):
            state[f"{name}.lora_a"] = torch.randn(rank, module.base.in_features, device="cuda") * 0.01
            state[f"{name}.lora_b"] = torch.randn(module.base.out_features, rank, device="cuda") * 0.01
    return state


def main():
    dim, tokens = 768, 1024
    model = nn.Sequential(*[UNetBlock(dim, 64) for _ in range(4)]).cuda().eval()
    unet = CompiledUNet(model, tokens, dim)
    unet.record()
    images = []
    for rank, scaling in [(8, 1.0), (32, 0.5), (64, 2.0)]:
        hotswap_adapter(model, random_adapter(model, rank), scaling)
        latent = torch.randn(tokens, dim, device="cuda")
        for _ in range(20):
            latent = latent - 0.05 * unet(latent)
        images.append(latent)
    print([i.std().item() for i in images])


if __name__ == "__main__":
    main()
