"""MoE layer whose expert weight gradients are computed late, next to the A2A."""
import torch
import torch.distributed as dist
from torch import nn


class DelayedLinear(nn.Module):
    """Linear whose weight gradient is accumulated by an explicit call."""

    def __init__(self, in_features, out_features):
        super().__init__()
        weight = torch.empty(out_features, in_features, device="cuda", dtype=torch.bfloat16)
        self.weight = nn.Parameter(nn.init.normal_(weight, std=0.02), requires_grad=False)
        self.main_grad = torch.zeros(out_features, in_features, device="cuda")
        self._wgrad_store = []

    def forward(self, x):
        return x @ self.weight.t()

    def dgrad(self, x, grad_output):
        self._wgrad_store.append((x, grad_output))
        return grad_output @ self.weight

    def backward_dw(self):
        for x, grad_output in self._wgrad_store:
            self.main_grad.addmm_(grad_output.t().float(), x.float())

    def clear_store(self):
        self._wgrad_store.clear()


class MoELayer(nn.Module):
    def __init__(self, hidden, latent, ffn, group):
        super().__init__()
        self.group = group
        self.experts = DelayedLinear(latent, ffn)
        self.fc2_latent_proj = DelayedLinear(ffn, hidden)
        self.comm_stream = torch.cuda.Stream()
        self._delayed_wgrad_stream = torch.cuda.Stream()
        self._delayed_wgrad_event = torch.cuda.Event()

    def forward(self, x):
        dispatched = torch.empty_like(x)
        dist.all_to_all_single(dispatched, x, group=self.group)
        hidden = self.experts(dispatched)
        return self.fc2_latent_proj(hidden), (dispatched, hidden)

    def backward_dw(self):
        self.experts.backward_dw()
        self.comm_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.comm_stream):
            self.fc2_latent_proj.backward_dw()

    def backward(self, saved, grad_output):
        dispatched, hidden = saved
        grad_hidden = self.fc2_latent_proj.dgrad(hidden, grad_output)
        grad_dispatched = self.experts.dgrad(dispatched, grad_hidden)
        self._delayed_wgrad_event.record()
        self._delayed_wgrad_stream.wait_event(self._delayed_wgrad_event)
        with torch.cuda.stream(self._delayed_wgrad_stream):
            self.backward_dw()
            self._delayed_wgrad_event.record(self._delayed_wgrad_stream)
        grad_input = torch.empty_like(grad_dispatched)
        dist.all_to_all_single(grad_input, grad_dispatched, group=self.group)
        return grad_input

    def finalize_grads(self):
        torch.cuda.current_stream().wait_event(self._delayed_wgrad_event)
        for linear in (self.experts, self.fc2_latent_proj):
            dist.all_reduce(linear.main_grad, group=self.group)

    def apply_update(self, lr):
        with torch.no_grad():
            for linear in (self.experts, self.fc2_latent_proj):
                linear.weight.sub_(linear.main_grad.to(linear.weight.dtype), alpha=lr)
                linear.main_grad.zero_()


def train(steps=100, tokens=4096, hidden=2048, latent=1024, ffn=4096):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    layer = MoELayer(hidden, latent, ffn, dist.group.WORLD)
    for _ in range(steps):
        x = torch.randn(tokens, latent, device="cuda", dtype=torch.bfloat16)
        out, saved = layer(x)
        grad = out * (2.0 / out.numel())
        layer.backward(saved, grad)
        layer.finalize_grads()
        layer.apply_update(lr=1e-3)
        torch.cuda.synchronize()
        layer.experts.clear_store()
        layer.fc2_latent_proj.clear_store()
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
