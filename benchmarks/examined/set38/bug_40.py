"""Routing tables for a mixture of experts, sent to the device without host stalls."""
import numpy as np
import torch
import torch.nn as nn
from cuda.bindings import runtime as cudart

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
TORCH_OF = {np.dtype(np.int32): torch.int32, np.dtype(np.int64): torch.int64,
            np.dtype(np.float32): torch.float32}


def check(err):
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1])


def async_to_device(array, device):
    """Returns a device tensor with the array's contents; the copy is queued only."""
    pinned = torch.from_numpy(array).pin_memory()
    out = torch.empty(array.shape, dtype=TORCH_OF[array.dtype], device=device)
    stream = torch.cuda.current_stream(device)
    err, = cudart.cudaMemcpyAsync(out.data_ptr(), pinned.data_ptr(), array.nbytes,
                                  H2D, stream.cuda_stream)
    check(err)
    return out


class RoutingPlanner:
    """Host-side balanced assignment of tokens to experts."""

    def __init__(self, tokens, experts, seed=0):
        self.tokens = tokens
        self.experts = experts
        self.rng = np.random.default_rng(seed)

    def plan(self):
        order = self.rng.permutation(self.tokens).astype(np.int64)
        return order

    def offsets(self):
        per = self.tokens // self.experts
        return np.arange(self.experts + 1, dtype=np.int64) * per


class ExpertLayer(nn.Module):
    def __init__(self, dim, experts):
        super().__init__()
        self.w = nn.Parameter(torch.randn(experts, dim, dim) * dim ** -0.5)

    def forward(self, x, order, experts):
        grouped = x.index_select(0, order).view(experts, -1, x.shape[1])
        y = torch.bmm(grouped, self.w).flatten(0, 1)
        return torch.zeros_like(x).index_copy_(0, order, y)


class Model(nn.Module):
    def __init__(self, dim, depth, experts):
        super().__init__()
        self.layers = nn.ModuleList(ExpertLayer(dim, experts) for _ in range(depth))
        self.experts = experts

    def forward(self, x, planner):
        for layer in self.layers:
            order = async_to_device(planner.plan(), x.device)
            x = x + layer(nn.functional.layer_norm(x, x.shape[1:]), order, self.experts)
        return x


@torch.no_grad()
def main():
    torch.manual_seed(0)
    tokens, dim, experts, depth = 65536, 1024, 16, 24
    model = Model(dim, depth, experts).cuda().eval()
    planner = RoutingPlanner(tokens, experts)
    print("offsets", planner.offsets()[:4])
    x = torch.randn(tokens, dim, device="cuda")
    for _ in range(5):
        x = nn.functional.layer_norm(model(x, planner), (dim,))
    print(float(x.abs().mean()))


if __name__ == "__main__":
    main()
