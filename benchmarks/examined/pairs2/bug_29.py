"""Half-precision compute weights cast on a side stream."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CastWeights:
    """Keeps half copies of the weights and fences the modules which use them."""

    def __init__(self, model):
        self.model = model
        self.stream = torch.cuda.Stream()
        self.event = torch.cuda.Event()
        self.half = {}
        for module in model.modules():
            for name, p in module.named_parameters(recurse=False):
                module.register_buffer(name + "_half", p.detach().half(), persistent=False)
            if isinstance(module, nn.Linear):
                module.register_forward_pre_hook(self._fence)

    def _fence(self, module, args):
        torch.cuda.current_stream().wait_event(self.event)

    @torch.no_grad()
    def cast(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for module in self.model.modules():
                for name, p in module.named_parameters(recurse=False):
                    getattr(module, name + "_half").copy_(p)
            self.event.record()


class HalfNorm(nn.LayerNorm):
    def forward(self, x):
        return F.layer_norm(x, self.normalized_shape, self.weight_half, self.bias_half, self.eps)


class HalfLinear(nn.Linear):
    def forward(self, x):
        return F.linear(x, self.weight_half, self.bias_half)


class EmaTracker:
    def __init__(self, model, source, decay=0.99):
        self.pairs = list(zip(model.parameters(), source.parameters()))
        self.decay = decay

    @torch.no_grad()
    def update(self):
        for dst, src in self.pairs:
            dst.lerp_(src, 1 - self.decay)


def main():
    def stack(norm, linear):
        return nn.Sequential(norm(1024), linear(1024, 1024), norm(1024), linear(1024, 1024)).cuda()

    student, teacher = stack(nn.LayerNorm, nn.Linear), stack(HalfNorm, HalfLinear)
    ema, cast = EmaTracker(teacher, student), CastWeights(teacher)
    opt = torch.optim.AdamW(student.parameters(), lr=1e-4)
    for _ in range(500):
        x = torch.randn(128, 1024, device="cuda")
        with torch.no_grad():
            target = teacher(x.half()).float()
        loss = F.mse_loss(student(x), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch.cuda.current_stream().wait_stream(cast.stream)
        ema.update()
        cast.cast()


main()
