import torch
import torch.distributed as dist


class AllToAllRequest:
    def __init__(self, work, output, splits, inputs):
        self.work = work
        self.output = output
        self.splits = splits
        self.inputs = inputs

    def wait(self):
        self.work.wait()
        self.inputs = None
        return self.output.split(self.splits)


def pooled_all_to_all(pooled, group):
    """Start exchanging pooled embeddings; returns a request to be waited for later."""
    world = dist.get_world_size(group)
    batch = pooled.shape[0] // world
    send = pooled.contiguous()
    recv = torch.empty_like(send)
    work = dist.all_to_all_single(recv, send, group=group, async_op=True)
    return AllToAllRequest(work, recv, [batch] * world, send)


class ShardedEmbedding(torch.nn.Module):
    def __init__(self, rows, dim, group):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(rows, dim), requires_grad=False)
        self.group = group

    def start(self, ids):
        return pooled_all_to_all(self.table[ids].mean(dim=1), self.group)


class TwoGroupModel(torch.nn.Module):
    """Tables on two process groups; the dense arch runs while both exchanges are under way."""

    def __init__(self, rows, dim, dense_in, groups):
        super().__init__()
        self.embs = torch.nn.ModuleList([ShardedEmbedding(rows, dim, g) for g in groups])
        self.dense = torch.nn.Sequential(
            torch.nn.Linear(dense_in, 512), torch.nn.ReLU(), torch.nn.Linear(512, dim)
        )
        world = dist.get_world_size()
        self.over = torch.nn.Linear(dim * (1 + world * len(groups)), 1)

    def forward(self, dense, ids_per_group):
        requests = [e.start(ids) for e, ids in zip(self.embs, ids_per_group)]
        x = self.dense(dense)
        parts = [x]
        for req in requests:
            parts.extend(req.wait())
        return self.over(torch.cat(parts, dim=1))


def train(model, batches, lr, device):
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.SGD(params, lr=lr)
    loss_sum = torch.zeros((), device=device)
    for dense, ids_per_group, label in batches:
        dense = dense.to(device, non_blocking=True)
        ids = [i.to(device, non_blocking=True) for i in ids_per_group]
        label = label.to(device, non_blocking=True)
        out = model(dense, ids).squeeze(1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(out, label)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        works = [dist.all_reduce(p.grad, async_op=True) for p in params]
        loss_sum += loss.detach()
        for w in works:
            w.wait()
        for p in params:
            p.grad.div_(dist.get_world_size())
        opt.step()
    return loss_sum.item()
