"""Batched greedy assignment for set prediction losses, with a raw kernel for the matching."""
import cupy as cp
import torch
from torch import nn

_ASSIGN = r"""
extern "C" __global__
void greedy_assign(const float* cost, int* match, int batch, int rows, int cols) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= batch) return;
    const float* c = cost + (size_t)b * rows * cols;
    int* m = match + (size_t)b * rows;
    for (int r = 0; r < rows; ++r) {
        int best = -1;
        for (int k = 0; k < cols; ++k) {
            bool taken = false;
            for (int q = 0; q < r; ++q) taken |= (m[q] == k);
            if (!taken && (best < 0 || c[r * cols + k] < c[r * cols + best])) best = k;
        }
        m[r] = best;
    }
}
"""
_kernel = cp.RawKernel(_ASSIGN, "greedy_assign")


def batch_assignment(cost):
    """cost: (batch, targets, queries) float tensor on the GPU; returns (batch, targets) indices."""
    if cost.dim() != 3 or not cost.is_cuda:
        raise ValueError("expected a 3-d CUDA tensor")
    cost = cost.detach().float().contiguous()
    batch, rows, cols = cost.shape
    match = torch.full((batch, rows), -1, dtype=torch.int32, device=cost.device)
    with cp.cuda.Device(cost.device.index):
        threads = 128
        blocks = (batch + threads - 1) // threads
        _kernel((blocks,), (threads,), (cp.asarray(cost), cp.asarray(match), batch, rows, cols))
    return match.long()


class SetCriterion(nn.Module):
    def __init__(self, weight_class=1.0, weight_box=5.0):
        super().__init__()
        self.weight_class, self.weight_box = weight_class, weight_box

    def forward(self, logits, boxes, labels, targets):
        prob = logits.softmax(-1)
        n_targets = labels.shape[1]
        cls = -prob.gather(2, labels[:, None, :].expand(-1, prob.shape[1], -1))
        box = torch.cdist(boxes, targets, p=1)
        cost = (self.weight_class * cls + self.weight_box * box).transpose(1, 2)
        match = batch_assignment(cost)
        picked = boxes.gather(1, match[..., None].expand(-1, n_targets, boxes.shape[-1]))
        picked_logits = logits.gather(1, match[..., None].expand(-1, n_targets, logits.shape[-1]))
        loss_box = (picked - targets).abs().sum(-1).mean()
        loss_cls = nn.functional.cross_entropy(picked_logits.flatten(0, 1), labels.flatten())
        return loss_cls + self.weight_box * loss_box


class AuxiliaryHead:
    """Evaluates the criterion of every decoder layer on a side stream, beside the main branch."""

    def __init__(self, device="cuda:0"):
        self.stream = torch.cuda.Stream(device)
        self.criterion = SetCriterion()

    @torch.no_grad()
    def evaluate(self, layer_outputs, labels, targets):
        main = torch.cuda.current_stream()
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            losses = [self.criterion(lg, bx, labels, targets) for lg, bx in layer_outputs]
            total = torch.stack(losses)
        main.wait_stream(self.stream)
        total.record_stream(main)
        return total
