"""Pipeline parallel exchange with batched isend/irecv."""
from typing import List, Optional, Tuple

import torch
import torch.distributed as dist


class PipelineExchange:
    def __init__(self, group: dist.ProcessGroup, prev_rank: Optional[int], next_rank: Optional[int],
                 shape: Tuple[int, ...], dtype: torch.dtype, device: torch.device):
        self.group = group
        self.prev_rank, self.next_rank = prev_rank, next_rank
        self.shape, self.dtype, self.device = shape, dtype, device

    def _communicate(self, to_next: Optional[torch.Tensor], to_prev: Optional[torch.Tensor],
                     from_prev: bool, from_next: bool):
        ops: List[dist.P2POp] = []
        recv_prev = recv_next = None
        if from_prev and self.prev_rank is not None:
            recv_prev = torch.empty(self.shape, dtype=self.dtype, device=self.device, requires_grad=True)
            ops.append(dist.P2POp(dist.irecv, recv_prev, self.prev_rank, self.group))
        if from_next and self.next_rank is not None:
            recv_next = torch.empty(self.shape, dtype=self.dtype, device=self.device, requires_grad=True)
            ops.append(dist.P2POp(dist.irecv, recv_next, self.next_rank, self.group))
        if to_next is not None and self.next_rank is not None:
            ops.append(dist.P2POp(dist.isend, to_next, self.next_rank, self.group))
        if to_prev is not None and self.prev_rank is not None:
            ops.append(dist.P2POp(dist.isend, to_prev, self.prev_rank, self.group))
        if ops:
            for req in dist.batch_isend_irecv(ops):
                req.wait()
        return recv_prev, recv_next

    def recv_forward(self) -> Optional[torch.Tensor]:
        return self._communicate(None, None, True, False)[0]

    def send_forward_recv_backward(self, output: torch.Tensor) -> Optional[torch.Tensor]:
        return self._communicate(output, None, False, True)[1]

    def send_backward_recv_forward(self, grad: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
        return self._communicate(None, grad, True, False)[0]

    def send_backward(self, grad: Optional[torch.Tensor]) -> None:
        self._communicate(None, grad, False, False)


def forward_backward_no_interleaving(stage: torch.nn.Module, exchange: PipelineExchange, batches, loss_fn) -> List[float]:
    """One forward and one backward at a time; simple schedule for tests."""
    losses = []
    inp = exchange.recv_forward()
    for index, (tokens, target) in enumerate(batches):
        out = stage(tokens if inp is None else inp)
        if exchange.next_rank is None:
            loss = loss_fn(out, target)
            loss.backward()
            losses.append(loss.detach())
        else:
            grad = exchange.send_forward_recv_backward(out.detach())
            torch.autograd.backward(out, grad.detach())
        grad_in = None if inp is None else inp.grad
        if index + 1 < len(batches):
            inp = exchange.send_backward_recv_forward(grad_in)
        else:
            exchange.send_backward(grad_in)
    return [loss.item() for loss in losses]
