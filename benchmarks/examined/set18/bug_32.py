import torch
import torch.distributed as dist
from torch import nn


class ExpertFFN(nn.Module):
    def __init__(self, dim: int, hidden: int, local_experts: int):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(local_experts, dim, hidden) / dim**0.5)
        self.w2 = nn.Parameter(torch.randn(local_experts, hidden, dim) / hidden**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.bmm(x, self.w1)
        hidden = nn.functional.gelu(hidden)
        return torch.bmm(hidden, self.w2)


class AllToAllFFNOverlap(nn.Module):
    """Splits the capacity dimension so that all-to-all and expert FFN overlap."""

    def __init__(self, dim, hidden, local_experts, group, degree=4):
        super().__init__()
        self.group = group
        self.world = dist.get_world_size(group)
        self.local_experts = local_experts
        self.degree = degree
        self.ffn = ExpertFFN(dim, hidden, local_experts)
        self.comm_stream = torch.cuda.Stream()

    def _dispatch(self, chunk: torch.Tensor, ready: torch.cuda.Event):
        received = torch.empty_like(chunk)
        with torch.cuda.stream(self.comm_stream):
            self.comm_stream.wait_event(ready)
            dist.all_to_all_single(received, chunk, group=self.group)
            arrived = self.comm_stream.record_event()
        return received, arrived

    def _combine(self, chunk: torch.Tensor):
        computed = torch.cuda.current_stream().record_event()
        with torch.cuda.stream(self.comm_stream):
            self.comm_stream.wait_event(computed)
            returned = torch.empty_like(chunk)
            dist.all_to_all_single(returned, chunk, group=self.group)
        return returned

    def _expert_view(self, received: torch.Tensor) -> torch.Tensor:
        _, _, capacity, dim = received.shape
        return received.transpose(0, 1).reshape(self.local_experts, self.world * capacity, dim)

    def _token_view(self, out: torch.Tensor, capacity: int) -> torch.Tensor:
        out = out.view(self.local_experts, self.world, capacity, -1)
        return out.transpose(0, 1).contiguous()

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [world, local_experts, capacity, dim], tokens sorted by expert."""
        compute = torch.cuda.current_stream()
        chunks = [c.contiguous() for c in x.chunk(self.degree, dim=2)]
        ready = compute.record_event()

        incoming = [self._dispatch(chunks[0], ready)]
        outputs = []
        for i, chunk in enumerate(chunks):
            if i + 1 < len(chunks):
                incoming.append(self._dispatch(chunks[i + 1], ready))
            received, arrived = incoming[i]
            compute.wait_event(arrived)
            out = self.ffn(self._expert_view(received))
            outputs.append(self._token_view(out, chunk.shape[2]))

        returned = [self._combine(out) for out in outputs]
        compute.wait_stream(self.comm_stream)
        for tensor in returned:
            tensor.record_stream(compute)
        return torch.cat(returned, dim=2)


def build_layers(count, dim, hidden, local_experts, group):
    return nn.ModuleList(
        AllToAllFFNOverlap(dim, hidden, local_experts, group) for _ in range(count)
    ).cuda()


def main(capacity=1024, dim=1024, hidden=4096, local_experts=2, depth=4):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    world = dist.get_world_size()
    layers = build_layers(depth, dim, hidden, local_experts, dist.group.WORLD)

    x = torch.randn(world, local_experts, capacity, dim, device="cuda")
    for _ in range(10):
        for layer in layers:
            x = nn.functional.layer_norm(x + layer(x), (dim,))
    torch.cuda.synchronize()
    if dist.get_rank() == 0:
        print(x.float().norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
