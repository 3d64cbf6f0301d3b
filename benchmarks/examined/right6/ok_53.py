import torch
import warp as wp


@wp.kernel
def gather_rows(table: wp.array2d(dtype=float), index: wp.array(dtype=wp.int64),
                out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    out[i, j] = table[int(index[i]), j]


@wp.kernel
def scatter_rows(grad: wp.array2d(dtype=float), index: wp.array(dtype=wp.int64),
                 table_grad: wp.array2d(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(table_grad, int(index[i]), j, grad[i, j])


def launch_on_torch(kernel, dim, tensors):
    stream = wp.stream_from_torch(torch.cuda.current_stream(tensors[0].device))
    with wp.ScopedStream(stream, sync_enter=False):
        wp.launch(kernel, dim=dim, inputs=[wp.from_torch(t, requires_grad=False) for t in tensors],
                  device=stream.device)


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, index):
        out = torch.empty(index.numel(), table.shape[1], device=table.device)
        launch_on_torch(gather_rows, out.shape, [table.detach(), index, out])
        ctx.save_for_backward(index)
        ctx.rows = table.shape[0]
        return out

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        grad = grad.contiguous()
        table_grad = torch.zeros(ctx.rows, grad.shape[1], device=grad.device)
        launch_on_torch(scatter_rows, grad.shape, [grad, index, table_grad])
        return table_grad, None


def main():
    wp.init()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        table = torch.randn(1000, 64, device="cuda", requires_grad=True)
        for _ in range(20):
            index = torch.randint(0, 1000, (4096,), device="cuda")
            loss = Gather.apply(table, index).pow(2).mean()
            loss.backward()
            with torch.no_grad():
                table -= 0.1 * table.grad
                table.grad = None
        print(loss.item())


if __name__ == "__main__":
    main()
