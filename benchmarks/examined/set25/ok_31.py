"""Neighbour energies: Warp kernels run inside a PyTorch op."""
from contextlib import nullcontext

import torch
import warp as wp

wp.init()


@wp.kernel
def pair_energy(pos: wp.array(dtype=wp.vec3), cutoff: float, energy: wp.array(dtype=float)):
    i = wp.tid()
    e = float(0.0)
    for j in range(pos.shape[0]):
        if j != i:
            r = wp.length(pos[i] - pos[j])
            if r < cutoff:
                e += (cutoff - r) * (cutoff - r)
    energy[i] = e


def scoped_to_torch(device):
    if device.type != "cuda":
        return nullcontext()
    torch_stream = torch.cuda.current_stream(device)
    if wp.get_stream(str(device)).cuda_stream == torch_stream.cuda_stream:
        return nullcontext()
    return wp.ScopedStream(wp.stream_from_torch(torch_stream), sync_enter=False)


def energies(positions, cutoff):
    out = torch.empty(positions.shape[0], device=positions.device)
    with scoped_to_torch(positions.device):
        wp_pos = wp.from_torch(positions.contiguous(), dtype=wp.vec3)
        wp_out = wp.from_torch(out)
        wp.launch(pair_energy, dim=positions.shape[0],
                  inputs=[wp_pos, cutoff], outputs=[wp_out], device=str(positions.device))
    return out


class EnergyProbe:
    def __init__(self, device):
        self.stream = torch.cuda.Stream(device)

    def measure(self, positions, cutoff):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            centred = positions - positions.mean(dim=0)
            total = energies(centred, cutoff).sum()
        positions.record_stream(self.stream)
        return total

    def join(self, total):
        current = torch.cuda.current_stream()
        current.wait_stream(self.stream)
        total.record_stream(current)
        return total


def main():
    device = torch.device("cuda:0")
    pos = torch.rand(4096, 3, device=device) * 10
    probe = EnergyProbe(device)
    trace = []
    for _ in range(20):
        pending = probe.measure(pos, 1.5)
        pos = pos + 0.01 * torch.randn_like(pos)
        trace.append(probe.join(pending) / pos.shape[0])
    print(torch.stack(trace).tolist())


if __name__ == "__main__":
    main()
