"""Channel between two actors: payload over NCCL on a receive stream, futures resolved lazily."""
import os

import torch
import torch.distributed as dist

STATUS_OK = 0
STATUS_ERROR = 1


class GPUFuture:
    """Value produced on `stream`; resolving orders the consumer behind it."""

    def __init__(self, value, stream):
        self._value = value
        self._event = torch.cuda.Event()
        self._event.record(stream)

    def wait(self):
        torch.cuda.current_stream().wait_event(self._event)
        return self._value


class Channel:
    def __init__(self, peer, shape, dtype=torch.float32):
        self.peer = peer
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.shape = shape
        self.dtype = dtype
        self.send_stream = torch.cuda.Stream(self.device)
        self.recv_stream = torch.cuda.Stream(self.device)

    def write(self, tensor, status=STATUS_OK):
        header = torch.tensor([status, tensor.numel()], dtype=torch.int64, device=self.device)
        self.send_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.send_stream):
            dist.send(header, self.peer)
            dist.send(tensor, self.peer)
        header.record_stream(self.send_stream)
        tensor.record_stream(self.send_stream)

    def begin_read(self):
        """Start receiving the next message; returns a future of (header, payload)."""
        with torch.cuda.stream(self.recv_stream):
            header = torch.empty(2, dtype=torch.int64, device=self.device)
            payload = torch.empty(self.shape, dtype=self.dtype, device=self.device)
            dist.recv(header, self.peer)
            dist.recv(payload, self.peer)
            host_header = torch.empty(2, dtype=torch.int64, pin_memory=True)
            host_header.copy_(header, non_blocking=True)
            return GPUFuture((host_header, payload), self.recv_stream)


class Stage:
    """Runs `fn` on each received message with the next receive already posted."""

    def __init__(self, channel, fn):
        self.channel = channel
        self.fn = fn
        self._next = None

    def prefetch(self):
        self._next = self.channel.begin_read()

    def step(self):
        future, self._next = self._next, None
        header, payload = future.wait()
        payload.record_stream(torch.cuda.current_stream())
        if int(header[0]) != STATUS_OK:
            raise RuntimeError("upstream actor failed")
        used = payload.view(-1)[: int(header[1])]
        self.prefetch()
        return self.fn(used)


def main(steps=64):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    channel = Channel(peer=1 - rank, shape=(1 << 22,))
    if rank == 0:
        x = torch.randn(1 << 22, device="cuda")
        for _ in range(steps + 1):
            x = torch.tanh(x * 1.01)
            channel.write(x)
    else:
        stage = Stage(channel, lambda t: t.square().sum())
        stage.prefetch()
        losses = torch.stack([stage.step() for _ in range(steps)])
        print(losses.mean().item())
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
