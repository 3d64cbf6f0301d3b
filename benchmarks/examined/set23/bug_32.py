"""Template matching worker for one GPU."""
import torch


def _do_batched_correlation(image_dft, filters, rotations, template):
    spectra = filters[:, None] * (template * rotations)[None]
    corr = torch.fft.irfftn(image_dft * spectra.conj(), dim=(-2, -1))
    return corr.flatten(0, 1)


class DeviceResults:
    def __init__(self, shape, device):
        self.mip = torch.full(shape, -float("inf"), device=device)
        self.best_index = torch.full(shape, -1, dtype=torch.int64, device=device)
        self.correlation_sum = torch.zeros(shape, device=device)
        self.correlation_sq = torch.zeros(shape, device=device)

    def update(self, corr, first_index):
        values, where = corr.max(dim=0)
        better = values > self.mip
        self.mip.copy_(torch.where(better, values, self.mip))
        self.best_index.copy_(torch.where(better, where + first_index, self.best_index))
        self.correlation_sum += corr.sum(dim=0)
        self.correlation_sq += (corr * corr).sum(dim=0)


def core_match_template_single_gpu(
    rank, image_dft, template, filters, rotations, batch_size=8, num_streams=2
):
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    image_dft = image_dft.to(device)
    template = template.to(device)
    filters = filters.to(device)
    rotations = rotations.to(device)

    h, w = image_dft.shape[-2], (image_dft.shape[-1] - 1) * 2
    streams = [torch.cuda.Stream(device) for _ in range(num_streams)]
    partial = [DeviceResults((h, w), device) for _ in range(num_streams)]
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream(device))

    total = 0
    for i, start in enumerate(range(0, rotations.shape[0], batch_size)):
        lane = i % num_streams
        with torch.cuda.stream(streams[lane]):
            for rot in rotations[start : start + batch_size]:
                corr = _do_batched_correlation(image_dft, filters, rot[None], template)
                partial[lane].update(corr, total)
                total += corr.shape[0]

    mip, lane = torch.stack([p.mip for p in partial]).max(dim=0)
    index = torch.stack([p.best_index for p in partial])
    best_index = index.gather(0, lane[None])[0]
    corr_sum = torch.stack([p.correlation_sum for p in partial]).sum(dim=0)
    corr_sq = torch.stack([p.correlation_sq for p in partial]).sum(dim=0)

    return {
        "mip": mip.cpu().numpy(),
        "best_index": best_index.cpu().numpy(),
        "mean": (corr_sum / total).cpu().numpy(),
        "variance": (corr_sq / total - (corr_sum / total) ** 2).cpu().numpy(),
    }
