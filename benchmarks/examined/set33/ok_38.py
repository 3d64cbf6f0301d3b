import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class CompressState:
    def __init__(self, group=None, clip: float = 1e4):
        self.group = group or dist.group.WORLD
        self.world = dist.get_world_size(self.group)
        self.clip = clip
        self.buckets = 0


def half_hook(state: CompressState, bucket: dist.GradBucket) -> torch.futures.Future:
    buffer = bucket.buffer()
    packed = buffer.clamp(-state.clip, state.clip).div_(state.world).to(torch.float16)
    state.buckets += 1
    future = dist.all_reduce(packed, group=state.group, async_op=True).get_future()

    def unpack(fut: torch.futures.Future) -> torch.Tensor:
        reduced = fut.value()[0]
        buffer.copy_(reduced)
        return buffer

    return future.then(unpack)


class Trainer:
    def __init__(self, model: nn.Module, lr: float = 1e-2):
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.model = DDP(model.to(self.device), device_ids=[self.device.index])
        self.state = CompressState()
        self.model.register_comm_hook(self.state, half_hook)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return torch.stack((loss.detach(), norm.detach()))


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 10))
    trainer = Trainer(model)
    history = []
    for _ in range(20):
        x = torch.randn(128, 1024, device=trainer.device)
        y = torch.randint(0, 10, (128,), device=trainer.device)
        history.append(trainer.step(x, y))
    print(torch.stack(history).tolist()[-1])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
