import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class ErrorFeedbackState:
    def __init__(self, group=None):
        self.group = group or dist.group.WORLD
        self.residual = {}


def bf16_error_feedback_hook(state: ErrorFeedbackState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Compress a bucket to bf16, keep what was rounded away for the next step."""
    buf = bucket.buffer()
    world = state.group.size()
    residual = state.residual.get(bucket.index())
    if residual is not None and residual.numel() == buf.numel():
        buf.add_(residual)
    compressed = buf.to(torch.bfloat16)
    state.residual[bucket.index()] = buf - compressed
    compressed.div_(world)
    fut = dist.all_reduce(compressed, group=state.group, async_op=True).get_future()

    def decompress(fut):
        reduced = fut.value()[0]
        buf.copy_(reduced)
        return buf

    return fut.then(decompress)


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    torch.manual_seed(0)
    net = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(8)]).cuda()
    ddp = DDP(net, device_ids=[torch.cuda.current_device()], bucket_cap_mb=8)
    ddp.register_comm_hook(ErrorFeedbackState(), bf16_error_feedback_hook)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.01)
    for step in range(50):
        x = torch.randn(64, 1024, device="cuda")
        loss = (ddp(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(rank, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
