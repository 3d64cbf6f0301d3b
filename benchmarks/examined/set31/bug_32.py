"""Gradient hooks which overlap reduction with backward."""
import torch
import torch.distributed as dist


class HookedReducer:
    def __init__(self, model, optimizer):
        self.optimizer = optimizer
        self.handles = {}
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(self._reduce)

    def _reduce(self, p):
        work = dist.all_reduce(p.grad, op=dist.ReduceOp.AVG, async_op=True)
        self.handles.setdefault(p, []).append(work)

    def step(self):
        for works in self.handles.values():
            for work in works:
                work.wait()
        self.handles.clear()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def main(micro_batches=4):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).cuda()
    reducer = HookedReducer(model, torch.optim.SGD(model.parameters(), lr=1e-3))
    for _ in range(50):
        for _ in range(micro_batches):
            x = torch.randn(16, 4096, device="cuda")
            (model(x).square().mean() / micro_batches).backward()
        reducer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
