import math

import torch
from numba import cuda


@cuda.jit
def alpha_kernel(log_probs, labels, lens, alphas, costs, blank):
    b = cuda.blockIdx.x
    u = cuda.threadIdx.x
    T = log_probs.shape[1]
    U = lens[b] + 1
    for d in range(T + U - 1):
        t = d - u
        if u < U and 0 <= t < T:
            if t == 0 and u == 0:
                alphas[b, 0, 0] = 0.0
            else:
                stay = -1e30
                emit = -1e30
                if t > 0:
                    stay = alphas[b, t - 1, u] + log_probs[b, t - 1, u, blank]
                if u > 0:
                    emit = alphas[b, t, u - 1] + log_probs[b, t, u - 1, labels[b, u - 1]]
                hi = max(stay, emit)
                alphas[b, t, u] = hi + math.log(math.exp(stay - hi) + math.exp(emit - hi))
        cuda.syncthreads()
    if u == 0:
        costs[b] = -(alphas[b, T - 1, U - 1] + log_probs[b, T - 1, U - 1, blank])


def numba_stream(device: torch.device):
    handle = torch.cuda.current_stream(device).cuda_stream
    if handle == 0:
        return cuda.default_stream()
    return cuda.external_stream(handle)


class GPURNNT:
    def __init__(self, max_u: int, blank: int):
        self.max_u = max_u
        self.blank = blank

    def compute_cost(self, acts: torch.Tensor, labels: torch.Tensor, lens: torch.Tensor):
        """Costs per utterance; everything is queued on torch's current stream."""
        stream = numba_stream(acts.device)
        log_probs = torch.log_softmax(acts.float(), dim=-1)
        batch, T, U, _ = log_probs.shape
        workspace = torch.full((batch, T, U), -1e30, device=acts.device)
        costs = torch.empty(batch, device=acts.device)
        alpha_kernel[batch, self.max_u, stream](
            cuda.as_cuda_array(log_probs),
            cuda.as_cuda_array(labels),
            cuda.as_cuda_array(lens),
            cuda.as_cuda_array(workspace),
            cuda.as_cuda_array(costs),
            self.blank,
        )
        return costs / lens.clamp(min=1)


class ValidationLoss:
    """Scores the joint output of the previous batch while the next is encoded."""

    def __init__(self, max_u: int, blank: int, device: torch.device):
        self.rnnt = GPURNNT(max_u, blank)
        self.stream = torch.cuda.Stream(device)
        self.parts: list[torch.Tensor] = []

    def submit(self, acts, labels, lens):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.parts.append(self.rnnt.compute_cost(acts, labels, lens).sum())
        for tensor in (acts, labels, lens):
            tensor.record_stream(self.stream)

    def compute(self) -> float:
        current = torch.cuda.current_stream()
        current.wait_stream(self.stream)
        total = torch.stack(self.parts).sum()
        for part in self.parts:
            part.record_stream(current)
        self.parts.clear()
        return total.item()


@torch.no_grad()
def validate(encoder, joint, loader, max_u=33, blank=0):
    device = torch.device("cuda")
    loss = ValidationLoss(max_u, blank, device)
    for features, labels, lens in loader:
        encoded = encoder(features.to(device, non_blocking=True))
        acts = joint(encoded[:, :, None, :] + torch.zeros(1, 1, max_u, 1, device=device))
        loss.submit(acts, labels.to(device), lens.to(device))
    return loss.compute()


def main():
    encoder = torch.nn.Linear(80, 256).cuda()
    joint = torch.nn.Linear(256, 128).cuda()
    batches = [
        (torch.randn(8, 100, 80), torch.randint(1, 128, (8, 32)), torch.randint(1, 33, (8,)))
        for _ in range(10)
    ]
    print(validate(encoder, joint, batches))


if __name__ == "__main__":
    main()
