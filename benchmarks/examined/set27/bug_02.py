import torch
import torch.distributed as dist
import torch.nn as nn


class ParamAndGradBuffer:
    """Flat storage for parameters and gradients of one data-parallel group."""

    def __init__(self, params, dtype):
        numel = sum(p.numel() for p in params)
        self.param_data = torch.empty(numel, dtype=dtype, device="cuda")
        self.grad_data = torch.zeros(numel, dtype=torch.float32, device="cuda")
        offset = 0
        for p in params:
            end = offset + p.numel()
            view = self.param_data[offset:end].view(p.shape)
            view.copy_(p.data)
            p.data = view
            p.main_grad = self.grad_data[offset:end].view(p.shape)
            offset = end


class DistributedDataParallel(nn.Module):
    def __init__(self, module, group):
        super().__init__()
        self.module = module
        self.group = group
        params = [p for p in module.parameters() if p.requires_grad]
        self.buffer = ParamAndGradBuffer(params, params[0].dtype)

    def forward(self, x):
        return self.module(x)

    def finish_grad_sync(self):
        for p in self.module.parameters():
            p.main_grad.add_(p.grad)
            p.grad = None
        dist.all_reduce(self.buffer.grad_data, group=self.group)
        self.buffer.grad_data /= dist.get_world_size(self.group)


class TransformerStack(nn.Module):
    def __init__(self, layers, hidden):
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.Linear(hidden, hidden, device="cuda", dtype=torch.bfloat16) for _ in range(layers)]
        )

    def reset_parameters(self, std):
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=std)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.nn.functional.gelu(layer(x))
        return x


class MegatronParallel(nn.ModuleList):
    """Pipeline chunks of this rank, wrapped for data parallelism."""

    def __init__(self, chunks, group):
        super().__init__(chunks)
        self.group = group
        self.main_params = []

    def init_model_parallel(self, std=0.02):
        for chunk in self:
            chunk.reset_parameters(std)
        with torch.cuda.stream(torch.cuda.Stream()):
            self.init_ddp()
        for chunk in self:
            for p in chunk.module.parameters():
                self.main_params.append((p, p.detach().float().clone()))

    def init_ddp(self):
        for i, chunk in enumerate(self):
            self[i] = DistributedDataParallel(chunk, self.group)

    def forward(self, x):
        for chunk in self:
            x = chunk(x)
        return x

    @torch.no_grad()
    def optimizer_step(self, lr):
        for chunk in self:
            chunk.finish_grad_sync()
        for p, master in self.main_params:
            master.add_(p.main_grad, alpha=-lr)
            p.copy_(master)
            p.main_grad.zero_()


def pretrain(loader, layers=12, hidden=4096, lr=1e-4):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = MegatronParallel([TransformerStack(layers, hidden) for _ in range(2)], dist.group.WORLD)
    model.init_model_parallel()
    for batch, target in loader:
        loss = (model(batch.cuda()).float() - target.cuda()).pow(2).mean()
        loss.backward()
        model.optimizer_step(lr)
