from typing import Dict, Tuple

import torch

N_BA = 128
QKV_DIM = 4096

_workspace_cache: Dict[Tuple, Tuple[torch.Tensor, torch.Tensor]] = {}


def _get_workspace(batch: int, device: torch.device) -> Tuple[torch.Tensor, torch.Tensor]:
    key = (batch, str(device), torch.cuda.current_stream(device).cuda_stream)
    workspace = _workspace_cache.get(key)
    if workspace is None:
        workspace = (
            torch.zeros((batch, N_BA), dtype=torch.float32, device=device),
            torch.empty((batch, QKV_DIM), dtype=torch.bfloat16, device=device),
        )
        _workspace_cache[key] = workspace
    return workspace


def gdn_fused_decode(
    x: torch.Tensor,
    w_qkv: torch.Tensor,
    w_ba: torch.Tensor,
    state: torch.Tensor,
) -> torch.Tensor:
    part, qkv_act = _get_workspace(x.size(0), x.device)
    part.zero_()
    part.addmm_(x.float(), w_ba)
    torch.mm(x, w_qkv, out=qkv_act)
    gate = torch.sigmoid(part).mean(dim=1, keepdim=True)
    q, k, v, _ = qkv_act.float().chunk(4, dim=1)
    state.mul_(gate.unsqueeze(-1)).add_(k.unsqueeze(-1) * v.unsqueeze(-2))
    return torch.bmm(q.unsqueeze(1), state).squeeze(1)


class GdnLayer(torch.nn.Module):
    def __init__(self, hidden: int, device="cuda"):
        super().__init__()
        self.w_qkv = torch.randn(hidden, QKV_DIM, dtype=torch.bfloat16, device=device)
        self.w_ba = torch.randn(hidden, N_BA, device=device)
        self.w_o = torch.randn(QKV_DIM // 4, hidden, device=device)

    def forward(self, x, state):
        return (gdn_fused_decode(x, self.w_qkv, self.w_ba, state) @ self.w_o).to(x.dtype)


class DualBatchDecoder:
    """Interleaves two half batches, each on a stream of its own."""

    def __init__(self, layers):
        self.layers = layers
        self.streams = (torch.cuda.Stream(), torch.cuda.Stream())

    @torch.no_grad()
    def decode(self, x: torch.Tensor, states):
        main = torch.cuda.current_stream()
        halves = list(x.chunk(2))
        for stream in self.streams:
            stream.wait_stream(main)
        for i, layer in enumerate(self.layers):
            for ubatch, stream in enumerate(self.streams):
                with torch.cuda.stream(stream):
                    halves[ubatch] = layer(halves[ubatch], states[ubatch][i])
        for stream, half in zip(self.streams, halves):
            main.wait_stream(stream)
            half.record_stream(main)
        return torch.cat(halves)
