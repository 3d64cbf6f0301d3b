"""Data parallel orthogonalising optimizer: each rank updates a slice, then gathers."""
import torch
import torch.distributed as dist


@torch.no_grad()
def orthogonalise(g, steps=5):
    x = g.bfloat16()
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.to(g.dtype)


class ShardedOrtho(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95):
        super().__init__(list(params), dict(lr=lr, momentum=momentum))
        self.world = dist.get_world_size()
        self.rank = dist.get_rank()

    def _update_own(self, p, group):
        state = self.state[p]
        if "buf" not in state:
            state["buf"] = torch.zeros_like(p.grad)
        buf = state["buf"]
        buf.lerp_(p.grad, 1 - group["momentum"])
        return p.add(orthogonalise(buf), alpha=-group["lr"])

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            params = group["params"]
            handles = []
            for base in range(0, len(params), self.world):
                chunk = params[base:base + self.world]
                own = chunk[min(self.rank, len(chunk) - 1)]
                new = self._update_own(own, group)
                flat = torch.empty(self.world, *own.shape, device=own.device, dtype=own.dtype)
                work = dist.all_gather_into_tensor(flat, new.unsqueeze(0), async_op=True)
                handles.append((work, new))
                for p, value in zip(chunk, flat):
                    p.copy_(value)
            for work, _ in handles:
                work.wait()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    layers = [torch.nn.Linear(2048, 2048, bias=False) for _ in range(12)]
    model = torch.nn.Sequential(*layers).cuda()
    opt = ShardedOrtho(model.parameters())
    for _ in range(10):
        x = torch.randn(32, 2048, device="cuda")
        model(x).square().mean().backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
