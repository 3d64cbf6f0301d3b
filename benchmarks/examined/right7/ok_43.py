"""Handles built on a common waitable base."""
import abc

import torch
import torch.distributed as dist


class Waitable(abc.ABC):
    def __init__(self):
        self._resolved = False

    def result(self):
        if not self._resolved:
            self._resolve()
            self._resolved = True
        return self._value()

    @abc.abstractmethod
    def _resolve(self): ...

    @abc.abstractmethod
    def _value(self): ...


class StreamResult(Waitable):
    def __init__(self, stream, tensor):
        super().__init__()
        self._event = stream.record_event()
        self._tensor = tensor

    def _resolve(self):
        current = torch.cuda.current_stream()
        current.wait_event(self._event)
        self._tensor.record_stream(current)

    def _value(self):
        return self._tensor


class Reduced(Waitable):
    def __init__(self, tensor):
        super().__init__()
        self._tensor = tensor
        self._work = dist.all_reduce(tensor, async_op=True)

    def _resolve(self):
        self._work.wait()

    def _value(self):
        return self._tensor


class Group(Waitable):
    def __init__(self, *members: Waitable):
        super().__init__()
        self.members = members

    def _resolve(self):
        for m in self.members:
            m.result()

    def _value(self):
        return [m._value() for m in self.members]


def launch_norms(stream, x):
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        norms = x.norm(dim=1)
        x.record_stream(stream)
        return StreamResult(stream, norms)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    side = torch.cuda.Stream()
    total = torch.zeros((), device="cuda")
    for _ in range(10):
        x = torch.randn(64, 128, device="cuda")
        group = Group(launch_norms(side, x), Reduced(x.mean(0)))
        x = x * 2
        norms, mean = group.result()
        total += norms.max() + mean.sum() + x.sum()
    print(total.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
