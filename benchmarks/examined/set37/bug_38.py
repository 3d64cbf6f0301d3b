"""Adam whose state is sharded over the ranks; gradients are scattered, parameters gathered."""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class DistAdam(torch.optim.Optimizer):
    def __init__(self, params, lr=8e-4, betas=(0.8, 0.95), eps=1e-10, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        self._gathers = []

    def _finish_gathers(self):
        for work in self._gathers:
            work.wait()
        self._gathers = []

    def _reduce_gradients(self):
        scattered = []
        for group in self.param_groups:
            for p in group["params"]:
                shard = torch.empty_like(p.grad[: p.shape[0] // self.world])
                work = dist.reduce_scatter_tensor(
                    shard, p.grad, op=dist.ReduceOp.AVG, async_op=True)
                scattered.append((group, p, shard, work))
        return scattered

    @torch.no_grad()
    def step(self):
        self._finish_gathers()
        for group, p, grad, work in self._reduce_gradients():
            work.wait()
            beta1, beta2 = group["betas"]
            rows = p.shape[0] // self.world
            p_slice = p[self.rank * rows:(self.rank + 1) * rows]
            state = self.state[p]
            if not state:
                state["step"] = 0
                state["exp_avg"] = torch.zeros_like(p_slice)
                state["exp_avg_sq"] = torch.zeros_like(p_slice)
            state["step"] += 1
            t = state["step"]
            state["exp_avg"].lerp_(grad, 1 - beta1)
            state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            denom = (state["exp_avg_sq"] / (1 - beta2 ** t)).sqrt_().add_(group["eps"])
            if group["weight_decay"]:
                p_slice.mul_(1 - group["lr"] * group["weight_decay"])
            p_slice.addcdiv_(state["exp_avg"], denom, value=-group["lr"] / (1 - beta1 ** t))
            self._gathers.append(dist.all_gather_into_tensor(p, p_slice, async_op=True))


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, 4 * dim, bias=False)
        self.proj = nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x):
        return x + self.proj(F.relu(self.fc(F.rms_norm(x, (x.size(-1),)))).square())


class LanguageModel(nn.Module):
    def __init__(self, vocab=50304, dim=768, depth=12):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(F.rms_norm(x, (x.size(-1),)))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def train_step(model, optimizer, tokens, targets):
    loss = model(tokens, targets)
    loss.backward()
    optimizer.step()
    model.zero_grad(set_to_none=True)
    return loss.detach()


def main(steps=50):
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    model = LanguageModel().to(device)
    for p in model.parameters():
        dist.broadcast(p.detach(), src=0)
    optimizer = DistAdam(model.parameters())
    losses = []
    for _ in range(steps):
        tokens = torch.randint(0, 50304, (8, 1025), device=device)
        losses.append(train_step(model, optimizer, tokens[:, :-1], tokens[:, 1:]))
    print(dist.get_rank(), torch.stack(losses).mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
