import torch
import torch.distributed as dist


@torch.no_grad()
def newton_schulz(g, steps=5):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    tall = x.size(-2) > x.size(-1)
    if tall:
        x = x.mT
    for _ in range(steps):
        m = x @ x.mT
        x = a * x + (b * m + c * m @ m) @ x
    return (x.mT if tall else x).to(g.dtype)


class DistMuon(torch.optim.Optimizer):
    """Muon with optimizer state sharded over the ranks; every group holds parameters of one shape."""

    def __init__(self, groups, lr=0.02, momentum=0.95):
        super().__init__(groups, dict(lr=lr, momentum=momentum))

    def _reduce(self, group, world):
        params = group["params"]
        chunk = (len(params) + world - 1) // world
        shape, device, dtype = params[0].shape, params[0].device, params[0].dtype
        stacked = torch.zeros(chunk * world, *shape, device=device, dtype=dtype)
        torch._foreach_copy_(list(stacked[: len(params)].unbind(0)), [p.grad for p in params])
        grad_chunk = torch.empty(chunk, *shape, device=device, dtype=dtype)
        work = dist.reduce_scatter_tensor(grad_chunk, stacked, op=dist.ReduceOp.AVG, async_op=True)
        return dict(work=work, stacked=stacked, grad_chunk=grad_chunk, chunk=chunk)

    def _compute(self, group, info, rank):
        info["work"].wait()
        params, chunk, grad = group["params"], info["chunk"], info["grad_chunk"]
        state = self.state[params[0]]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(grad)
        buf = state["momentum_buffer"]
        buf.lerp_(grad, 1 - group["momentum"])
        update = newton_schulz(grad.lerp_(buf, group["momentum"]))

        start = rank * chunk
        owned = params[start : start + chunk]
        updated = torch.zeros_like(grad)
        if owned:
            updated[: len(owned)].copy_(torch.stack([p.detach() for p in owned]))
            updated[: len(owned)].sub_(update[: len(owned)], alpha=group["lr"])
        info["updated"] = updated
        info["gather"] = dist.all_gather_into_tensor(info["stacked"], updated, async_op=True)

    def _finish(self, group, info):
        info["gather"].wait()
        params = group["params"]
        torch._foreach_copy_(params, list(info["stacked"][: len(params)].unbind(0)))

    @torch.no_grad()
    def step(self):
        rank, world = dist.get_rank(), dist.get_world_size()
        infos = [self._reduce(g, world) for g in self.param_groups]
        for group, info in zip(self.param_groups, infos):
            self._compute(group, info, rank)
        for group, info in zip(self.param_groups, infos):
            self._finish(group, info)


def train(model, loader, steps):
    by_shape = {}
    for p in model.parameters():
        by_shape.setdefault(p.shape, []).append(p)
    opt = DistMuon([dict(params=ps) for ps in by_shape.values()])
    for _, (x, y) in zip(range(steps), loader):
        loss = model(x.cuda(non_blocking=True), y.cuda(non_blocking=True))
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
