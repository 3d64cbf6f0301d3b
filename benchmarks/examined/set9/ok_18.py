import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.autograd.function import Function


class SyncBatchNormFunction(Function):
    @staticmethod
    def forward(ctx, input, weight, bias, running_mean, running_var, eps, momentum, process_group, world_size):
        input = input.contiguous()
        num_channels = input.shape[1]
        if input.numel() > 0:
            # calculate mean/invstd for input.
            mean, invstd = torch.batch_norm_stats(input, eps)
            count = torch.full((1,), input.numel() // num_channels, dtype=mean.dtype, device=mean.device)
            # C, C, 1 -> (2C + 1)
            combined = torch.cat([mean, invstd, count], dim=0)
        else:
            # for empty input, set stats and the count to zero.
            combined = torch.zeros(2 * num_channels + 1, dtype=input.dtype, device=input.device)

        combined_size = combined.numel()
        combined_flat = torch.empty(1, combined_size * world_size, dtype=combined.dtype, device=combined.device)
        dist.all_gather_into_tensor(combined_flat, combined, process_group, async_op=False)
        combined = torch.reshape(combined_flat, (world_size, combined_size))
        # world_size * (2C + 1) -> world_size * C, world_size * C, world_size * 1
        mean_all, invstd_all, count_all = torch.split(combined, num_channels, dim=1)

        if not torch.cuda.is_current_stream_capturing():
            # remove stats from empty inputs
            mask = count_all.squeeze(-1) >= 1
            count_all = count_all[mask]
            mean_all = mean_all[mask]
            invstd_all = invstd_all[mask]

        # calculate global mean & invstd
        mean, invstd = torch.batch_norm_gather_stats_with_counts(
            input, mean_all, invstd_all, running_mean, running_var, momentum, eps, count_all.view(-1)
        )
        return torch.batch_norm_elemt(input, weight, bias, mean, invstd, eps)


class SyncBatchNorm(torch.nn.modules.batchnorm._BatchNorm):
    def __init__(self, num_features, process_group=None, eps=1e-5, momentum=0.1):
        super().__init__(num_features, eps, momentum)
        self.process_group = process_group

    def _check_input_dim(self, input):
        assert input.dim() >= 2

    def forward(self, input):
        world_size = dist.get_world_size(self.process_group)
        if not self.training or world_size == 1:
            return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        return SyncBatchNormFunction.apply(
            input, self.weight, self.bias, self.running_mean, self.running_var,
            self.eps, self.momentum, self.process_group, world_size,
        )


class GraphedStem(torch.nn.Module):
    """Captures the forward of a stem with synchronized statistics."""

    def __init__(self, conv: torch.nn.Module, norm: SyncBatchNorm, sample: torch.Tensor):
        super().__init__()
        self.conv = conv
        self.norm = norm
        self.static_input = sample.clone()
        self.graph = torch.cuda.CUDAGraph()
        self.static_output = None

    @torch.no_grad()
    def capture(self, warmup: int = 11):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(warmup):
                self.norm(self.conv(self.static_input))
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.static_output = self.norm(self.conv(self.static_input))

    @torch.no_grad()
    def forward(self, x):
        self.static_input.copy_(x)
        self.graph.replay()
        return self.static_output
