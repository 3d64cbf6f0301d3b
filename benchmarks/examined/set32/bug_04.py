"""A small process-group facade with its own communication stream."""
import os

import torch
import torch.distributed as dist


class StreamWork:
    """Handle of an operation enqueued on the communication stream."""

    def __init__(self, event, device, tensors):
        self._event = event
        self._device = device
        self._tensors = tensors

    def is_completed(self):
        return self._event.query()

    def wait(self, timeout=None):
        if self._device.type == "cuda":
            self._tensors = None
            return True
        self._event.synchronize()
        self._tensors = None
        return True


class OverlapGroup:
    def __init__(self, group=None):
        self.group = group
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.comm_stream = torch.cuda.Stream(self.device, priority=-1)

    def _launch(self, fn, *tensors):
        self.comm_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.comm_stream):
            fn()
            event = self.comm_stream.record_event()
        for t in tensors:
            t.record_stream(self.comm_stream)
        return StreamWork(event, self.device, tensors)

    def all_reduce(self, tensor, async_op=False):
        work = self._launch(lambda: dist.all_reduce(tensor, group=self.group), tensor)
        if async_op:
            return work
        work.wait()
        return None

    def all_gather_into(self, out, inp, async_op=False):
        work = self._launch(
            lambda: dist.all_gather_into_tensor(out, inp, group=self.group), out, inp
        )
        if async_op:
            return work
        work.wait()
        return None


class RowParallelLinear(torch.nn.Module):
    def __init__(self, in_features, out_features, pg):
        super().__init__()
        world = dist.get_world_size(pg.group)
        self.pg = pg
        self.weight = torch.nn.Parameter(torch.empty(out_features, in_features // world))
        self.bias = torch.nn.Parameter(torch.zeros(out_features))
        torch.nn.init.xavier_uniform_(self.weight)

    def forward(self, x_shard):
        partial = torch.nn.functional.linear(x_shard, self.weight)
        work = self.pg.all_reduce(partial, async_op=True)
        bias = self.bias.to(partial.dtype)
        work.wait()
        return partial + bias


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    pg = OverlapGroup()
    layer = RowParallelLinear(8192, 8192, pg).cuda().eval()
    with torch.inference_mode():
        x = torch.randn(2048, 8192 // dist.get_world_size(), device="cuda")
        y = layer(x)
        norm = y.norm()
        pg.all_reduce(norm)
        print(norm.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
