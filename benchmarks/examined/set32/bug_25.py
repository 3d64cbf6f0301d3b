"""Trainer side of a weight hand-over: parameters go out in flat buckets over a
communicator that torch.distributed does not know."""
import cupy as cp
import torch
from cupy.cuda import nccl


class WireGroup:
    def __init__(self, unique_id, rank, world, device):
        self.device = device
        with cp.cuda.Device(device):
            self.comm = nccl.NcclCommunicator(world, unique_id, rank)
            self.comm_stream = torch.cuda.Stream(device)
        self.rank = rank

    def broadcast(self, tensor, src=0):
        self.comm.bcast(
            tensor.data_ptr(),
            tensor.numel() * tensor.element_size(),
            nccl.NCCL_UINT8,
            src,
            self.comm_stream.cuda_stream,
        )

    def finish(self):
        self.comm_stream.synchronize()


class WeightPublisher:
    def __init__(self, group, socket, bucket_bytes=256 << 20):
        self.group = group
        self.socket = socket
        self.bucket_bytes = bucket_bytes

    def _buckets(self, named):
        batch, size = [], 0
        for name, p in named:
            nbytes = p.numel() * p.element_size()
            if batch and size + nbytes > self.bucket_bytes:
                yield batch
                batch, size = [], 0
            batch.append((name, p.detach()))
            size += nbytes
        if batch:
            yield batch

    def publish(self, batch):
        meta = [(name, tuple(p.shape), str(p.dtype)) for name, p in batch]
        flat = torch.cat([p.reshape(-1).view(torch.uint8) for _, p in batch])
        self.group.comm_stream.wait_stream(torch.cuda.current_stream(self.group.device))
        self.socket.send_pyobj(meta)
        self.group.broadcast(flat)

    def publish_all(self, model):
        for batch in self._buckets(model.named_parameters()):
            self.publish(batch)
        self.socket.send_pyobj(None)
        self.group.finish()


class WeightReceiver:
    def __init__(self, group, socket, bucket_bytes=512 << 20):
        self.group = group
        self.socket = socket
        self.buffer = torch.empty(bucket_bytes, dtype=torch.uint8, device=f"cuda:{group.device}")

    def receive(self, model):
        params = dict(model.named_parameters())
        while True:
            meta = self.socket.recv_pyobj()
            if meta is None:
                return
            sizes = [params[n].numel() * params[n].element_size() for n, _, _ in meta]
            view = self.buffer[: sum(sizes)]
            self.group.comm_stream.wait_stream(torch.cuda.current_stream(self.group.device))
            self.group.broadcast(view)
            torch.cuda.current_stream(self.group.device).wait_stream(self.group.comm_stream)
            for (name, shape, _), part in zip(meta, view.split(sizes)):
                params[name].data.copy_(part.view(params[name].dtype).view(shape))
