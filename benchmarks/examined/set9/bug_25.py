from typing import Dict, List

import cupy
import torch
from cupy.cuda import nccl

TORCH_NCCL_DTYPE_MAP = {
    torch.float32: nccl.NCCL_FLOAT32,
    torch.float16: nccl.NCCL_FLOAT16,
    torch.int64: nccl.NCCL_INT64,
}


def _get_comm_key_send_recv(my_rank: int, my_gpu_idx: int, peer_rank: int, peer_gpu_idx: int) -> str:
    if my_rank < peer_rank:
        return f"{my_rank}_{my_gpu_idx}:{peer_rank}_{peer_gpu_idx}"
    return f"{peer_rank}_{peer_gpu_idx}:{my_rank}_{my_gpu_idx}"


class NCCLGroup:
    def __init__(self, rank: int, uid_store):
        self.rank = rank
        self._uid_store = uid_store
        self._dev_comm_map: Dict[str, List[nccl.NcclCommunicator]] = {}
        self._dev_streams_map: Dict[str, List[cupy.cuda.Stream]] = {}
        self._dev_event_map: Dict[str, List[cupy.cuda.Event]] = {}

    def _get_nccl_p2p_communicator(self, comm_key, my_gpu_idx, peer_rank):
        if comm_key not in self._dev_comm_map:
            uid = self._uid_store.exchange(comm_key)
            with cupy.cuda.Device(my_gpu_idx):
                comm = nccl.NcclCommunicator(2, uid, 0 if self.rank < peer_rank else 1)
                self._dev_streams_map[comm_key] = [cupy.cuda.Stream(null=False, non_blocking=True)]
                self._dev_event_map[comm_key] = [cupy.cuda.Event(disable_timing=True)]
            self._dev_comm_map[comm_key] = [comm]
        return self._dev_comm_map[comm_key]

    @staticmethod
    def _sync_streams(device_list, events, streams):
        for i, device in enumerate(device_list):
            with cupy.cuda.Device(device):
                current = cupy.cuda.ExternalStream(torch.cuda.current_stream(device).cuda_stream)
                events[i].record(current)
                streams[i].wait_event(events[i])

    def send(self, tensors, peer_rank: int, peer_gpu_idx: int):
        def p2p_fn(tensor, comm, stream, peer):
            comm.send(tensor.data_ptr(), tensor.numel(), TORCH_NCCL_DTYPE_MAP[tensor.dtype], peer, stream.ptr)

        self._point2point(tensors, p2p_fn, peer_rank, peer_gpu_idx)

    def _point2point(self, tensors, p2p_fn, peer_rank: int, peer_gpu_idx: int):
        assert len(tensors) == 1
        my_gpu_idx = tensors[0].device.index
        comm_key = _get_comm_key_send_recv(self.rank, my_gpu_idx, peer_rank, peer_gpu_idx)
        comms = self._get_nccl_p2p_communicator(comm_key, my_gpu_idx, peer_rank)
        streams = self._dev_streams_map[comm_key]
        events = self._dev_event_map[comm_key]
        self._sync_streams([my_gpu_idx], events, streams)

        # We have made sure that self.rank != peer_rank during API check.
        peer_p2p_rank = 0 if self.rank > peer_rank else 1
        for i, tensor in enumerate(tensors):
            p2p_fn(tensor, comms[i], streams[i], peer_p2p_rank)


class GPUObjectStore:
    def __init__(self, group: NCCLGroup):
        self.group = group
        self._objects: Dict[str, torch.Tensor] = {}

    def add_object(self, obj_id: str, tensor: torch.Tensor):
        self._objects[obj_id] = tensor

    def send_object(self, obj_id: str, dst_rank: int, dst_gpu_idx: int = 0):
        tensor = self._objects.pop(obj_id)
        self.group.send([tensor], dst_rank, dst_gpu_idx)


def produce_and_send(store: GPUObjectStore, model, batches, dst_rank: int):
    for i, batch in enumerate(batches):
        store.add_object(f"obj-{i}", model(batch).contiguous())
        store.send_object(f"obj-{i}", dst_rank)
