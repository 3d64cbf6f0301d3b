import torch
import zmq
from torch.multiprocessing.reductions import rebuild_cuda_tensor, reduce_tensor

ALIGN = 256


def _round_up(n):
    return (n + ALIGN - 1) // ALIGN * ALIGN


def make_buckets(named, capacity):
    bucket, used = [], 0
    for name, tensor in named:
        size = _round_up(tensor.numel() * tensor.element_size())
        if bucket and used + size > capacity:
            yield bucket
            bucket, used = [], 0
        bucket.append((name, tensor, used))
        used += size
    if bucket:
        yield bucket


class TrainerEndpoint:
    def __init__(self, address, capacity=1 << 30):
        self.socket = zmq.Context.instance().socket(zmq.REQ)
        self.socket.bind(address)
        self.buffer = torch.empty(capacity, dtype=torch.uint8, device="cuda")
        self.capacity = capacity

    @torch.no_grad()
    def update_weights(self, model):
        self.socket.send_pyobj(reduce_tensor(self.buffer))
        self.socket.recv()
        for bucket in make_buckets(model.state_dict().items(), self.capacity):
            layout = []
            for name, tensor, offset in bucket:
                raw = tensor.detach().contiguous().view(-1).view(torch.uint8)
                self.buffer[offset : offset + raw.numel()].copy_(raw, non_blocking=True)
                layout.append((name, tensor.dtype, tuple(tensor.shape), offset, raw.numel()))
            self.socket.send_pyobj(layout)
            self.socket.recv()
        self.socket.send_pyobj(None)
        self.socket.recv()


class WorkerExtension:
    """Mixed into the inference worker."""

    def update_weights_from_ipc(self, address):
        socket = zmq.Context.instance().socket(zmq.REP)
        socket.connect(address)
        buffer = None
        while True:
            message = socket.recv_pyobj()
            if message is None:
                torch.cuda.synchronize()
                del buffer
                socket.send(b"")
                break
            if isinstance(message, tuple):
                function, args = message
                assert function is rebuild_cuda_tensor
                args = list(args)
                args[6] = torch.cuda.current_device()
                buffer = function(*args)
                socket.send(b"")
                continue
            weights = []
            for name, dtype, shape, offset, size in message:
                raw = buffer[offset : offset + size]
                weights.append((name, raw.view(dtype).view(shape)))
            self.model_runner.model.load_weights(weights)
            torch.cuda.synchronize()
            socket.send(b"")
        socket.close()
