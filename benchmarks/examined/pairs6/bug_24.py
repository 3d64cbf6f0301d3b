"""Low memory fine-tuning: each gradient is moved to the host inside the backward pass."""
import torch
import torch.nn as nn


class CPUOffloadOptimizer:
    def __init__(self, params, optimizer_class=torch.optim.AdamW, **kwargs):
        self.param_cuda2cpu = {}
        self.optim_dict = {}
        self.stream = torch.cuda.Stream()
        self.queue = {}
        for p_cuda in params:
            p_cpu = torch.empty_like(p_cuda, device="cpu", pin_memory=True)
            p_cpu.copy_(p_cuda.detach())
            p_cpu.grad = torch.empty_like(p_cpu, pin_memory=True)
            self.param_cuda2cpu[p_cuda] = p_cpu
            self.optim_dict[p_cuda] = optimizer_class([p_cpu], **kwargs)
            p_cuda.register_post_accumulate_grad_hook(self._backward_hook)

    def _backward_hook(self, p_cuda):
        p_cpu = self.param_cuda2cpu[p_cuda]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            p_cpu.grad.copy_(p_cuda.grad, non_blocking=True)
        self.queue[p_cuda] = self.stream.record_event()
        p_cuda.grad = None

    @torch.no_grad()
    def step(self):
        for p_cuda, grad_d2h_event in self.queue.items():
            grad_d2h_event.synchronize()
            self.optim_dict[p_cuda].step()
            with torch.cuda.stream(self.stream):
                p_cuda.copy_(self.param_cuda2cpu[p_cuda], non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.queue.clear()


def main():
    layer = nn.TransformerEncoderLayer(2048, 16, 8192, batch_first=True)
    model = nn.TransformerEncoder(layer, 16).cuda()
    optimizer = CPUOffloadOptimizer(model.parameters(), lr=1e-5)
    for step in range(100):
        x = torch.randn(2, 1024, 2048, device="cuda")
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
