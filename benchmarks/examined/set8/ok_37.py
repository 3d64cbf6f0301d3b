import torch
import torch.distributed as dist
from torch.multiprocessing.reductions import reduce_tensor


class BucketedWeightSender:

    def __init__(self, socket, bucket_bytes, device):
        self.socket = socket
        self.bucket = torch.empty(bucket_bytes, dtype=torch.uint8, device=device)

    def _flush(self, metas, is_last):
        torch.cuda.synchronize(self.bucket.device)
        self.socket.send_pyobj({"tensors": metas, "is_last": is_last})
        self.socket.recv()

    def send(self, named_tensors):
        self.socket.send_pyobj(reduce_tensor(self.bucket))
        self.socket.recv()
        metas, offset = [], 0
        for name, t in named_tensors:
            flat = t.contiguous().view(-1).view(torch.uint8)
            if offset + flat.numel() > self.bucket.numel():
                self._flush(metas, False)
                metas, offset = [], 0
            self.bucket[offset:offset + flat.numel()].copy_(flat, non_blocking=True)
            metas.append((name, tuple(t.shape), t.dtype, offset, flat.numel()))
            offset += (flat.numel() + 255) // 256 * 256
        self._flush(metas, True)


class WeightSyncWorkerExtension:

    def __init__(self, socket, model, device, cpu_group, tp_rank, tp_size):
        self.socket = socket
        self.model = model
        self.device = device
        self.cpu_group = cpu_group
        self.is_driver = tp_rank == 0
        self.tp_size = tp_size

    def _recv(self):
        box = [self.socket.recv_pyobj() if self.is_driver else None]
        if self.tp_size > 1:
            dist.broadcast_object_list(box, src=0, group=self.cpu_group)
        return box[0]

    def _ack(self):
        torch.cuda.synchronize(self.device)
        if self.tp_size > 1:
            dist.barrier(group=self.cpu_group)
        if self.is_driver:
            self.socket.send(b"")

    def update_weights_from_ipc(self):
        rebuild, args = self._recv()
        bucket = rebuild(*args)
        self._ack()
        loaded = 0
        while True:
            message = self._recv()
            weights = []
            for name, shape, dtype, offset, nbytes in message["tensors"]:
                view = bucket[offset:offset + nbytes].view(dtype).view(shape)
                weights.append((name, view.clone()))
            self._ack()
            self.model.load_weights(weights)
            loaded += len(weights)
            if message["is_last"]:
                break
        del bucket
        torch.cuda.synchronize(self.device)
        return loaded
