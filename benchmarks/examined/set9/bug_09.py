from collections import defaultdict
from itertools import product

import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


class ParamBcastSyncHandler:
    """Waits for the parameter broadcast of a rank right before its first use."""

    def __init__(self, model: torch.nn.Module, param_to_rank):
        self._bcast_handles = defaultdict(list)
        for module in model.modules():
            ranks = {param_to_rank[p] for p in module.parameters(recurse=False)}
            if ranks:
                module.register_forward_pre_hook(self._make_hook(ranks))

    def _make_hook(self, ranks):
        def _pre_forward_hook(module, inputs):
            for rank in ranks:
                for handle in self._bcast_handles.pop(rank, ()):
                    handle.wait()

        return _pre_forward_hook

    def add_bcast_handle(self, rank, handle):
        self._bcast_handles[rank].append(handle)


class HybridZeroOptimizer:
    def __init__(self, model, optim_cls, rank_params, group, lr):
        self.group = group
        self._zero_world_size = dist.get_world_size(group)
        self._zero_local_rank = dist.get_rank(group)
        self._comm_stream = torch.cuda.Stream()
        self._fp16_flat = {}
        for rank, params in rank_params.items():
            flat = _flatten_dense_tensors([p.data for p in params])
            for p, view in zip(params, _unflatten_dense_tensors(flat, [p.data for p in params])):
                p.data = view
            self._fp16_flat[rank] = flat
        self._my_params = rank_params[self._zero_local_rank]
        self._fp32_flat = self._fp16_flat[self._zero_local_rank].detach().float()
        self._fp32_flat.requires_grad_(True)
        self.optim = optim_cls([self._fp32_flat], lr=lr)
        self._param_bcast_sync_handler = ParamBcastSyncHandler(
            model, {p: r for r, params in rank_params.items() for p in params}
        )

    def step(self):
        grads = [p.grad for p in self._my_params]
        self._fp32_flat.grad = _flatten_dense_tensors(grads).float()
        self.optim.step()
        self._fp32_flat.grad = None
        fp16_param = self._fp16_flat[self._zero_local_rank]
        fp16_param.copy_(self._fp32_flat.detach())

        with torch.cuda.stream(self._comm_stream):
            self.broadcast_params()
        return True

    def broadcast_params(self):
        for rank, group_id in product(range(self._zero_world_size), range(1)):
            fp16_param = self._fp16_flat[rank]
            g_rank = dist.get_global_rank(self.group, rank)
            handle = dist.broadcast(fp16_param, src=g_rank, group=self.group, async_op=True)
            self._param_bcast_sync_handler.add_bcast_handle(rank, handle)
