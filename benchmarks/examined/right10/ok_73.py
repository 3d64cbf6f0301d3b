"""Warp kernels inside a torch training loop, on torch's current stream."""
import torch
import warp as wp


@wp.kernel
def wave(x: wp.array(dtype=float), w: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    j = i % w.shape[0]
    y[i] = wp.sin(w[j] * x[i])


@wp.kernel
def wave_grad(
    x: wp.array(dtype=float), w: wp.array(dtype=float), g: wp.array(dtype=float), gw: wp.array(dtype=float)
):
    i = wp.tid()
    j = i % w.shape[0]
    wp.atomic_add(gw, j, g[i] * x[i] * wp.cos(w[j] * x[i]))


def launch(kernel, dim, *tensors):
    stream = wp.stream_from_torch(torch.cuda.current_stream())
    arrays = [wp.from_torch(t.detach().contiguous().view(-1)) for t in tensors]
    with wp.ScopedStream(stream, sync_enter=False):
        wp.launch(kernel, dim=dim, inputs=arrays)


class Wave(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        y = torch.empty_like(x)
        launch(wave, x.numel(), x, w, y)
        ctx.save_for_backward(x, w)
        return y

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        gw = torch.zeros_like(w)
        g = g.contiguous()
        launch(wave_grad, x.numel(), x, w, g, gw)
        return None, gw


def main():
    wp.init()
    w = torch.linspace(0.5, 3.0, 64, device="cuda", requires_grad=True)
    opt = torch.optim.Adam([w], lr=1e-2)
    target = torch.linspace(0.6, 2.8, 64, device="cuda")
    train = torch.cuda.Stream()
    train.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(train):
        for step in range(200):
            x = torch.rand(1024, 64, device="cuda")
            loss = (Wave.apply(x, w) - torch.sin(target * x)).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(loss.item())


if __name__ == "__main__":
    main()
