"""Expert-parallel layer that overlaps sliced exchanges with expert GEMMs by work handles."""
import os

import torch
import torch.distributed as dist


class ExpertLayer:
    def __init__(self, hidden, slices, group):
        self.weight = torch.randn(hidden, hidden, device="cuda") * 0.02
        self.slices = slices
        self.group = group
        self.comp = torch.cuda.Stream()

    def _dispatch(self, routed, incoming):
        handles = []
        for out, src in zip(incoming.chunk(self.slices), routed.chunk(self.slices)):
            handles.append(
                dist.all_to_all_single(out, src, group=self.group, async_op=True)
            )
        return handles

    def _experts(self, handles, incoming, grad_in):
        pieces = zip(handles, incoming.chunk(self.slices), grad_in.chunk(self.slices))
        with torch.cuda.stream(self.comp):
            for handle, rows, out in pieces:
                handle.wait()
                torch.matmul(rows, self.weight.t(), out=out)

    def backward_pipeline(self, grad_out, order):
        current = torch.cuda.current_stream()
        routed = grad_out.index_select(0, order)
        incoming = torch.empty_like(routed)
        grad_in = torch.empty_like(routed)
        self.comp.wait_stream(current)

        handles = self._dispatch(routed, incoming)
        self._experts(handles, incoming, grad_in)
        current.wait_stream(self.comp)

        returned = torch.empty_like(routed)
        work = dist.all_to_all_single(returned, grad_in, group=self.group, async_op=True)
        result = torch.empty_like(returned)
        work.wait()
        result.index_copy_(0, order, returned)
        return result


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    world = dist.get_world_size()
    hidden, tokens = 2048, 4096 * world
    layers = [ExpertLayer(hidden, 4, dist.group.WORLD) for _ in range(6)]
    grad = torch.randn(tokens, hidden, device="cuda")
    for layer in reversed(layers):
        order = torch.randperm(tokens, device="cuda")
        grad = grad + layer.backward_pipeline(grad * 0.5, order)
    print(grad.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
