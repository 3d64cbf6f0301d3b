"""GPU video sampling with PyNvVideoCodec."""
import PyNvVideoCodec as nvc
import torch


class DecoderSlot:
    """A decoder bound to one CUDA stream for the life of the process."""

    def __init__(self, gpu_id=0):
        self.gpu_id = gpu_id
        self.stream = torch.cuda.Stream(gpu_id)

    def frames(self, path, wanted):
        demuxer = nvc.CreateDemuxer(filename=path)
        decoder = nvc.CreateDecoder(
            gpuid=self.gpu_id,
            codec=demuxer.GetNvCodecId(),
            cudacontext=0,
            cudastream=self.stream.cuda_stream,
            usedevicememory=True,
        )
        index = 0
        for packet in demuxer:
            for frame in decoder.Decode(packet):
                if index in wanted:
                    with torch.cuda.stream(self.stream):
                        picture = torch.from_dlpack(frame).clone()
                    yield index, picture
                index += 1


def nv12_to_rgb(nv12, height):
    y = nv12[:height].float() - 16.0
    uv = nv12[height:].view(height // 2, -1, 2).float() - 128.0
    uv = uv.repeat_interleave(2, 0).repeat_interleave(2, 1)
    u, v = uv[..., 0], uv[..., 1]
    r = 1.164 * y + 1.596 * v
    g = 1.164 * y - 0.392 * u - 0.813 * v
    b = 1.164 * y + 2.017 * u
    return torch.stack([r, g, b]).clamp_(0, 255)


class VideoSampler:
    def __init__(self, height, gpu_id=0):
        self.slot = DecoderSlot(gpu_id)
        self.height = height
        self.gpu_id = gpu_id

    def sample(self, path, indices):
        raw = dict(self.slot.frames(path, set(indices)))
        consumer = torch.cuda.current_stream(self.gpu_id)
        consumer.wait_stream(self.slot.stream)
        for t in raw.values():
            t.record_stream(consumer)
        return torch.stack([nv12_to_rgb(raw[i], self.height) for i in indices if i in raw])


def main():
    sampler = VideoSampler(1080)
    for path in ("a.mp4", "b.mp4"):
        clip = sampler.sample(path, [0, 15, 30, 45])
        print(path, tuple(clip.shape), clip.mean().item())


if __name__ == "__main__":
    main()
