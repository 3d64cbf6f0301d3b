import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class SharedExpertMLP(nn.Module):
    """Shared expert cut in stages that are launched between the steps of the token dispatcher."""

    stream = None

    def __init__(self, hidden, ffn, tp_group):
        super().__init__()
        self.fc1 = nn.Linear(hidden, 2 * ffn, bias=False)
        self.fc2 = nn.Linear(ffn, hidden, bias=False)
        self.gate = nn.Linear(hidden, 1, bias=False)
        self.tp_group = tp_group
        self._input = self._act = self._output = self._gate = None
        if SharedExpertMLP.stream is None:
            SharedExpertMLP.stream = torch.cuda.Stream()

    def pre_forward_comm(self, x):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            x.record_stream(self.stream)
            self._gate = torch.sigmoid(self.gate(x))
            world = dist.get_world_size(self.tp_group)
            gathered = torch.empty(x.shape[0] * world, x.shape[1], dtype=x.dtype, device=x.device)
            dist.all_gather_into_tensor(gathered, x, group=self.tp_group)
            self._input = gathered

    def linear_fc1_and_act(self):
        with torch.cuda.stream(self.stream):
            a, b = self.fc1(self._input).chunk(2, dim=-1)
            self._act = F.silu(a) * b
            self._input = None

    def linear_fc2(self):
        with torch.cuda.stream(self.stream):
            self._output = self.fc2(self._act)
            self._act = None

    def post_forward_comm(self):
        with torch.cuda.stream(self.stream):
            world = dist.get_world_size(self.tp_group)
            out = torch.empty(
                self._output.shape[0] // world, self._output.shape[1], dtype=self._output.dtype, device=self._output.device
            )
            dist.reduce_scatter_tensor(out, self._output, group=self.tp_group)
            self._output = out

    def get_output(self):
        current = torch.cuda.current_stream()
        with torch.cuda.stream(self.stream):
            out = self._output * self._gate
            self._output = self._gate = None
        current.wait_stream(self.stream)
        out.record_stream(current)
        return out


class MoELayer(nn.Module):
    def __init__(self, hidden, ffn, n_experts, ep_group, tp_group):
        super().__init__()
        self.router = nn.Linear(hidden, n_experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(hidden, ffn) * 0.02)
        self.w2 = nn.Parameter(torch.randn(ffn, hidden) * 0.02)
        self.shared = SharedExpertMLP(hidden, ffn, tp_group)
        self.ep_group = ep_group

    def forward(self, x):
        self.shared.pre_forward_comm(x)
        probs = self.router(x).softmax(dim=-1).amax(dim=-1, keepdim=True)

        dispatched = torch.empty_like(x)
        dist.all_to_all_single(dispatched, x, group=self.ep_group)
        self.shared.linear_fc1_and_act()

        hidden = F.silu(dispatched @ self.w1) @ self.w2
        self.shared.linear_fc2()

        combined = torch.empty_like(hidden)
        dist.all_to_all_single(combined, hidden, group=self.ep_group)
        self.shared.post_forward_comm()
        return combined * probs + self.shared.get_output()


@torch.inference_mode()
def forward_stack(layers, x):
    for layer in layers:
        x = x + layer(x)
    return x
