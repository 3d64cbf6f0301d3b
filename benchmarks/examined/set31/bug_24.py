"""Sharded optimizer which broadcasts updated parameters behind the next forward."""
import torch
import torch.distributed as dist


class OverlappedBroadcast:
    def __init__(self, model, lr=1e-3):
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        self.model = model
        self.pending = {}
        self.owner = {}
        own = []
        for i, p in enumerate(model.parameters()):
            self.owner[p] = i % self.world
            if self.owner[p] == self.rank:
                own.append(p)
        self.inner = torch.optim.AdamW(own, lr=lr)
        for m in model.modules():
            if list(m.parameters(recurse=False)):
                m.register_forward_pre_hook(self._wait_for)

    def _wait_for(self, module, args):
        for p in module.parameters(recurse=False):
            work = self.pending.pop(p, None)
            if work is not None:
                work.wait()

    def step(self):
        for p in self.model.parameters():
            dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
        self.inner.step()
        for p in self.model.parameters():
            self.pending[p] = dist.broadcast(p.data, src=self.owner[p], async_op=True)
        for p in self.model.parameters():
            p.grad = None


def snapshot(model):
    return {k: v.detach().cpu() for k, v in model.state_dict().items()}


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).cuda()
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    opt = OverlappedBroadcast(model)
    for step in range(1, 101):
        x = torch.randn(64, 4096, device="cuda")
        model(x).square().mean().backward()
        opt.step()
        if step % 20 == 0:
            state = snapshot(model)
            if dist.get_rank() == 0:
                torch.save(state, f"step_{step}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
