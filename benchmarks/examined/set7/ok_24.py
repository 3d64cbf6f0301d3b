from typing import List, Optional

import cupy as cp
from cupy.cuda import nccl


class TensorParallelGroup:
    def __init__(self, unique_id, rank: int, world_size: int, device_id: int):
        self.rank = rank
        self.world_size = world_size
        self.device = cp.cuda.Device(device_id)
        self.device.use()
        self.comm = nccl.NcclCommunicator(world_size, unique_id, rank)

    def all_reduce(self, x: cp.ndarray, out: Optional[cp.ndarray] = None) -> cp.ndarray:
        x = cp.ascontiguousarray(x)
        out = cp.empty_like(x) if out is None else out
        stream = cp.cuda.get_current_stream()
        self.comm.allReduce(x.data.ptr, out.data.ptr, x.size, nccl.NCCL_FLOAT16, nccl.NCCL_SUM, stream.ptr)
        return out

    def broadcast(self, x: cp.ndarray, root: int = 0) -> cp.ndarray:
        stream = cp.cuda.get_current_stream()
        self.comm.broadcast(x.data.ptr, x.data.ptr, x.size, nccl.NCCL_FLOAT16, root, stream.ptr)
        return x


class ColumnLinear:
    def __init__(self, weight: cp.ndarray, group: TensorParallelGroup):
        self.weight = cp.split(weight, group.world_size, axis=0)[group.rank].copy()

    def __call__(self, x: cp.ndarray) -> cp.ndarray:
        return x @ self.weight.T


class RowLinear:
    def __init__(self, weight: cp.ndarray, group: TensorParallelGroup):
        self.group = group
        self.weight = cp.split(weight, group.world_size, axis=1)[group.rank].copy()

    def __call__(self, x: cp.ndarray) -> cp.ndarray:
        return self.group.all_reduce(x @ self.weight.T)


class Mlp:
    def __init__(self, w_gate, w_up, w_down, group: TensorParallelGroup):
        self.gate = ColumnLinear(w_gate, group)
        self.up = ColumnLinear(w_up, group)
        self.down = RowLinear(w_down, group)

    def __call__(self, x: cp.ndarray) -> cp.ndarray:
        g = self.gate(x)
        h = g / (1 + cp.exp(-g)) * self.up(x)
        return self.down(h.astype(cp.float16))


class Decoder:
    def __init__(self, layers: List[Mlp], group: TensorParallelGroup):
        self.layers = layers
        self.group = group
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.stream.wait_event(cp.cuda.get_current_stream().record())

    def forward(self, hidden) -> "cp.ndarray":
        with self.device_scope(), self.stream:
            x = cp.asarray(hidden, dtype=cp.float16)
            x = self.group.broadcast(x)
            for layer in self.layers:
                x = x + layer(x)
            return cp.asnumpy(x)

    def device_scope(self):
        return self.group.device
