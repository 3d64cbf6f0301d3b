"""Instruction scheduler with one stream per stream type (compute, copy_h2d, copy_d2h)."""
import torch


class StreamType:
    def __init__(self, device):
        self.stream = torch.cuda.Stream(device)

    def compute(self, instr):
        with torch.cuda.stream(self.stream):
            instr.run()


class CopyStreamType(StreamType):
    def __init__(self, device):
        super().__init__(device)
        self.events = []

    def compute(self, instr):
        super().compute(instr)
        event = torch.cuda.Event()
        event.record(self.stream)
        instr.status = event
        self.events.append(event)


class Instruction:
    def __init__(self, fn, *operands):
        self.fn = fn
        self.operands = operands
        self.status = None

    def run(self):
        self.fn(*self.operands)

    def done(self):
        return self.status is None or self.status.query()


class VirtualMachine:
    def __init__(self, device):
        self.device = device
        self.compute = StreamType(device)
        self.h2d = CopyStreamType(device)
        self.d2h = CopyStreamType(device)

    def upload(self, dst, pinned):
        instr = Instruction(lambda d, s: d.copy_(s, non_blocking=True), dst, pinned)
        self.h2d.compute(instr)
        self.compute.stream.wait_event(instr.status)
        return instr

    def launch(self, fn, *operands):
        instr = Instruction(fn, *operands)
        self.compute.compute(instr)
        return instr

    def download(self, pinned, src):
        instr = Instruction(lambda d, s: d.copy_(s, non_blocking=True), pinned, src)
        self.d2h.compute(instr)
        return instr

    def wait(self, instr):
        if instr.status is not None:
            instr.status.synchronize()


def fused_op(x, w, y):
    torch.mm(x, w, out=y)
    y.tanh_()


def main():
    device = torch.device("cuda:0")
    vm = VirtualMachine(device)
    n = 4096
    host_in = [torch.randn(n, n).pin_memory() for _ in range(3)]
    host_out = torch.empty(n, n, pin_memory=True)
    x = torch.empty(n, n, device=device)
    y = torch.zeros(n, n, device=device)
    w = torch.randn(n, n, device=device)
    torch.cuda.synchronize(device)
    for h in host_in:
        vm.upload(x, h)
        vm.launch(fused_op, x, w, y)
        out = vm.download(host_out, y)
        vm.wait(out)
        print(float(host_out[0, 0]))
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
