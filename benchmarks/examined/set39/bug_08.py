"""Expert-parallel layer with its exchange split into slices that overlap expert GEMMs."""
import os

import torch
import torch.distributed as dist


class StreamManager:
    def __init__(self):
        self.comm = torch.cuda.Stream(priority=-1)
        self.comp = torch.cuda.Stream()


class ExpertLayer:
    def __init__(self, hidden, slices, smgr, group):
        self.weight = torch.randn(hidden, hidden, device="cuda") * 0.02
        self.slices = slices
        self.smgr = smgr
        self.group = group
        self.arrived = [torch.cuda.Event() for _ in range(slices)]
        self.computed = [torch.cuda.Event() for _ in range(slices)]
        torch.cuda.synchronize()

    def _exchange(self, out, src):
        dist.all_to_all_single(out, src, group=self.group)

    def backward_pipeline(self, grad_out, order):
        smgr = self.smgr
        current = torch.cuda.current_stream()
        routed = grad_out.index_select(0, order)
        incoming = torch.empty_like(routed)
        grad_in = torch.empty_like(routed)
        returned = torch.empty_like(routed)
        smgr.comp.wait_stream(current)

        src = routed.chunk(self.slices)
        recv = incoming.chunk(self.slices)
        local = grad_in.chunk(self.slices)
        back = returned.chunk(self.slices)

        for i in range(self.slices):
            with torch.cuda.stream(smgr.comm):
                self._exchange(recv[i], src[i])
                self.arrived[i].record()
            with torch.cuda.stream(smgr.comp):
                self.arrived[i].wait()
                torch.matmul(recv[i], self.weight.t(), out=local[i])
                self.computed[i].record()
        for i in range(self.slices):
            with torch.cuda.stream(smgr.comm):
                self.computed[i].wait()
                self._exchange(back[i], local[i])

        current.wait_stream(smgr.comm)
        current.wait_stream(smgr.comp)
        result = torch.empty_like(returned)
        result.index_copy_(0, order, returned)
        return result


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    world = dist.get_world_size()
    hidden, tokens = 2048, 4096 * world
    smgr = StreamManager()
    layers = [ExpertLayer(hidden, 4, smgr, dist.group.WORLD) for _ in range(6)]
    grad = torch.randn(tokens, hidden, device="cuda")
    for layer in reversed(layers):
        order = torch.randperm(tokens, device="cuda")
        grad = grad + layer.backward_pipeline(grad * 0.5, order)
    print(grad.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
