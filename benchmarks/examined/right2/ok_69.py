"""Clip sampling with PyNvVideoCodec and torch."""
import PyNvVideoCodec as nvc
import torch


class ClipReader:
    def __init__(self, path, gpu=0):
        self.stream = torch.cuda.Stream(device=gpu)
        self.demuxer = nvc.CreateDemuxer(filename=path)
        self.decoder = nvc.CreateDecoder(
            gpuid=gpu,
            codec=self.demuxer.GetNvCodecId(),
            cudacontext=0,
            cudastream=self.stream.cuda_stream,
            usedevicememory=True,
        )

    def surfaces(self):
        """Yield one private NV12 tensor per decoded frame."""
        for packet in self.demuxer:
            copies = []
            for frame in self.decoder.Decode(packet):
                with torch.cuda.stream(self.stream):
                    copies.append(torch.from_dlpack(frame).clone())
            self.stream.synchronize()
            yield from copies

    def clips(self, length, stride):
        window = []
        for index, surface in enumerate(self.surfaces()):
            if index % stride:
                continue
            surface.record_stream(torch.cuda.current_stream())
            window.append(surface)
            if len(window) == length:
                yield torch.stack(window)
                window.clear()


def luma(nv12):
    rows = nv12.shape[1] * 2 // 3
    return nv12[:, :rows].float().div_(255.0)


def motion_energy(path):
    energies = []
    for clip in ClipReader(path).clips(length=8, stride=4):
        y = luma(clip)
        energies.append((y[1:] - y[:-1]).square().mean())
    return torch.stack(energies).tolist() if energies else []


if __name__ == "__main__":
    print(motion_energy("input.mp4"))
