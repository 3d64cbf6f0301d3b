"""Gradient all-reduce from accumulation hooks on a communication stream."""
import torch
import torch.distributed as dist
from torch import nn


class OverlappedAllReduce:
    def __init__(self, module: nn.Module, group=None):
        self.module = module
        self.group = group
        self.scale = 1.0 / dist.get_world_size(group)
        self.comm_stream = torch.cuda.Stream()
        self.launched = 0
        for p in module.parameters():
            p.register_post_accumulate_grad_hook(self._hook)

    @torch.no_grad()
    def _hook(self, p: torch.Tensor) -> None:
        self.comm_stream.wait_stream(torch.cuda.current_stream(p.device))
        with torch.cuda.stream(self.comm_stream):
            p.grad.mul_(self.scale)
            dist.all_reduce(p.grad, group=self.group)
        self.launched += 1

    def synchronize(self) -> int:
        torch.cuda.current_stream().wait_stream(self.comm_stream)
        done, self.launched = self.launched, 0
        return done


class Trainer:
    def __init__(self, model: nn.Module, lr: float):
        self.model = model
        self.reducer = OverlappedAllReduce(model)
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.reducer.synchronize()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        return loss.detach()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda()
    trainer = Trainer(model, 1e-3)
    for step in range(100):
        x = torch.randn(32, 256, device="cuda")
        loss = trainer.step(x, x.roll(1, dims=1))
    print(dist.get_rank(), loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
