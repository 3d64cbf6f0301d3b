import torch
import torch.distributed as dist
from torch import nn


class ExpertParallelMoE(nn.Module):
    """One expert per rank; the shared expert hides the dispatch all-to-all."""

    def __init__(self, dim: int, hidden: int):
        super().__init__()
        self.world = dist.get_world_size()
        self.gate = nn.Linear(dim, self.world, bias=False)
        self.expert = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, dim))
        self.shared = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, dim))

    def _dispatch(self, x, choice):
        order = choice.argsort()
        counts = torch.bincount(choice, minlength=self.world)
        recv_counts = torch.empty_like(counts)
        dist.all_to_all_single(recv_counts, counts)
        send, recv = counts.tolist(), recv_counts.tolist()
        packed = x[order]
        buf = x.new_empty(sum(recv), x.shape[1])
        work = dist.all_to_all_single(buf, packed, recv, send, async_op=True)
        return work, packed, buf, order, send, recv

    def _combine(self, y, order, send, recv):
        back = y.new_empty(len(order), y.shape[1])
        work = dist.all_to_all_single(back, y, send, recv, async_op=True)
        return work, back

    @torch.inference_mode()
    def forward(self, x):
        prob, choice = self.gate(x).softmax(-1).max(-1)
        work, packed, buf, order, send, recv = self._dispatch(x, choice)
        shared = self.shared(x)
        work.wait()
        y = self.expert(buf)
        work, back = self._combine(y, order, send, recv)
        shared.mul_(0.5)
        inverse = order.argsort()
        work.wait()
        return shared.add_(back[inverse] * prob.unsqueeze(-1))


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    moe = ExpertParallelMoE(512, 2048).cuda()
    x = torch.randn(1024, 512, device="cuda")
    for _ in range(8):
        x = x + moe(x)
    print(dist.get_rank(), x.std().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
