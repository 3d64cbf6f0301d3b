"""Data-parallel wrapper that starts the optimizer for a parameter as soon as its gradient was accumulated."""
import torch
import torch.distributed as dist


class ParamState:
    def __init__(self, param):
        self.exp_avg = torch.zeros_like(param)
        self.exp_avg_sq = torch.zeros_like(param)
        self.step = 0


class InBackwardAdam:
    def __init__(self, lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1):
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.state = {}

    @torch.no_grad()
    def step_param(self, p):
        st = self.state.setdefault(p, None) or ParamState(p)
        self.state[p] = st
        st.step += 1
        b1, b2 = self.betas
        st.exp_avg.lerp_(p.grad, 1 - b1)
        st.exp_avg_sq.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
        denom = (st.exp_avg_sq / (1 - b2**st.step)).sqrt_().add_(self.eps)
        p.mul_(1 - self.lr * self.weight_decay)
        p.addcdiv_(st.exp_avg, denom, value=-self.lr / (1 - b1**st.step))


class OverlappedDataParallel(torch.nn.Module):
    def __init__(self, module, optimizer, group=None):
        super().__init__()
        self.module = module
        self.optimizer = optimizer
        self.group = group
        self.opt_stream = torch.cuda.Stream()
        self.works = []
        self.ready = []
        for p in module.parameters():
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, param):
        work = dist.all_reduce(param.grad, op=dist.ReduceOp.AVG, group=self.group, async_op=True)
        self.works.append(work)
        self.opt_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.opt_stream):
            self.optimizer.step_param(param)
        self.ready.append(param)

    def forward(self, *args):
        return self.module(*args)

    def finish_step(self):
        for work in self.works:
            work.wait()
        torch.cuda.current_stream().wait_stream(self.opt_stream)
        for p in self.ready:
            p.grad.zero_()
        self.works.clear()
        self.ready.clear()


class OverArch(torch.nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(dims[:-1], dims[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.manual_seed(0)
    model = OverlappedDataParallel(OverArch([4096, 8192, 8192, 1]).cuda(), InBackwardAdam(1e-4))
    for _ in range(100):
        x = torch.randn(512, 4096, device="cuda")
        loss = model(x).square().mean()
        loss.backward()
        model.finish_step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
