"""Warp physics inside a torch training loop on torch's stream."""
import torch
import warp as wp

wp.init()


@wp.kernel
def spring_energy(x: wp.array(dtype=wp.vec3), rest: float, e: wp.array(dtype=float)):
    i = wp.tid()
    d = wp.length(x[i + 1] - x[i]) - rest
    wp.atomic_add(e, 0, 0.5 * d * d)


def torch_stream():
    return wp.ScopedStream(wp.stream_from_torch(torch.cuda.current_stream()), sync_enter=False)


class SpringEnergy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, rest):
        energy = torch.zeros(1, device=x.device)
        ctx.gx = torch.zeros_like(x)
        ctx.ge = torch.zeros_like(energy)
        ctx.tape = wp.Tape()
        with torch_stream():
            ctx.wx = wp.from_torch(x.detach(), dtype=wp.vec3, requires_grad=True, grad=ctx.gx)
            ctx.we = wp.from_torch(energy.detach(), requires_grad=True, grad=ctx.ge)
            with ctx.tape:
                wp.launch(spring_energy, dim=x.shape[0] - 1, inputs=[ctx.wx, rest],
                          outputs=[ctx.we], device=ctx.wx.device)
        return energy

    @staticmethod
    def backward(ctx, grad):
        ctx.ge.copy_(grad)
        with torch_stream():
            ctx.tape.backward()
        return ctx.gx, None


def main(n=512, iters=50):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.randn(n, 3, device="cuda", requires_grad=True)
        opt = torch.optim.SGD([x], lr=0.05)
        losses = []
        for _ in range(iters):
            opt.zero_grad()
            loss = SpringEnergy.apply(x, 0.5)
            loss.sum().backward()
            opt.step()
            losses.append(loss.detach())
        total = torch.cat(losses)
        return total.tolist()


if __name__ == "__main__":
    print(main()[-1])
