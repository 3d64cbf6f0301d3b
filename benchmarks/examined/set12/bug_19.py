import torch
import triton
import triton.language as tl


@triton.jit
def triton_red_fused_isfinite_all_0(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)
    xmask = xindex < xnumel
    tmp0 = tl.load(in_ptr0 + xindex, mask=xmask, other=0.0)
    tmp1 = tl.abs(tmp0) < float("inf")
    tmp2 = tl.where(xmask & (tmp1 == 0), 1, 0)
    tl.atomic_add(out_ptr0, tl.sum(tmp2, axis=0))


class Runner:
    def __init__(self):
        self.partitions = [self.partition_0]
        self.buf1 = None

    def partition_0(self, args):
        (primals_1,) = args
        args.clear()
        xnumel = primals_1.numel()
        with torch.cuda.device(primals_1.device):
            buf0 = torch.zeros((), dtype=torch.int32, device=primals_1.device)
            grid = (triton.cdiv(xnumel, 1024),)
            triton_red_fused_isfinite_all_0[grid](primals_1, buf0, xnumel, XBLOCK=1024)
            buf1 = torch.empty_strided((), (), dtype=torch.int32, device="cpu", pin_memory=True)
            buf1.copy_(buf0, True)
            del buf0
        return (buf1,)

    def call(self, args):
        (self.buf1,) = self.partitions[0](args)
        u0 = self.buf1.item()
        return u0


runner = Runner()
call = runner.call


class CompiledGradScaler:
    def __init__(self, init_scale=2.0**16, growth_interval=2000):
        self.scale_value = init_scale
        self.growth_interval = growth_interval
        self.good_steps = 0

    def scale(self, loss):
        return loss * self.scale_value

    def step(self, optimizer, flat_grad):
        found_inf = call([flat_grad])
        if found_inf:
            self.scale_value *= 0.5
            self.good_steps = 0
            return False
        flat_grad.mul_(1.0 / self.scale_value)
        optimizer.step()
        self.good_steps += 1
        if self.good_steps % self.growth_interval == 0:
            self.scale_value *= 2.0
        return True
