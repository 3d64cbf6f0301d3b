import torch
import torch.distributed as dist
import torch.nn as nn


class SyncBatchNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, running_mean, running_var, eps, momentum, group, world_size):
        x = x.contiguous()
        count = torch.full((1,), x.numel() // x.size(1), dtype=torch.float32, device=x.device)
        mean, invstd = torch.batch_norm_stats(x, eps)
        combined = torch.cat([mean, invstd, count], dim=0)
        gathered = torch.empty(world_size * combined.numel(), dtype=combined.dtype, device=x.device)
        dist.all_gather_into_tensor(gathered, combined, group=group)
        num_channels = x.shape[1]
        mean_all, invstd_all, count_all = gathered.view(world_size, -1).split([num_channels, num_channels, 1], dim=1)

        if not torch.cuda.is_current_stream_capturing():
            mask = count_all.squeeze(-1) >= 1
            count_all = count_all[mask]
            mean_all = mean_all[mask]
            invstd_all = invstd_all[mask]

        mean, invstd = torch.batch_norm_gather_stats_with_counts(
            x, mean_all, invstd_all, running_mean, running_var, momentum, eps, count_all.view(-1)
        )
        ctx.save_for_backward(x, weight, mean, invstd, count_all.to(torch.int32))
        ctx.group = group
        return torch.batch_norm_elemt(x, weight, bias, mean, invstd, eps)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, mean, invstd, count = ctx.saved_tensors
        grad_output = grad_output.contiguous()
        sum_dy, sum_dy_xmu, grad_weight, grad_bias = torch.batch_norm_backward_reduce(
            grad_output, x, mean, invstd, weight, True, True, True
        )
        combined = torch.cat([sum_dy, sum_dy_xmu])
        dist.all_reduce(combined, group=ctx.group)
        sum_dy, sum_dy_xmu = combined.split(sum_dy.shape[0])
        grad_input = torch.batch_norm_backward_elemt(
            grad_output, x, mean, invstd, weight, sum_dy, sum_dy_xmu, count
        )
        return grad_input, grad_weight, grad_bias, None, None, None, None, None, None


class SyncBatchNorm(nn.BatchNorm2d):
    def forward(self, x):
        return SyncBatchNormFunction.apply(
            x, self.weight, self.bias, self.running_mean, self.running_var,
            self.eps, self.momentum, dist.group.WORLD, dist.get_world_size(),
        )


def capture_train_step(model, optimizer, criterion, static_input, static_target):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(11):
            optimizer.zero_grad(set_to_none=True)
            criterion(model(static_input), static_target).backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)

    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = criterion(model(static_input), static_target)
        loss.backward()
        optimizer.step()
    return graph, loss
