"""Temporal windows of decoded frames from a DALI pipeline, handed to CuPy."""
import cupy as cp
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali.pipeline import pipeline_def


@pipeline_def(exec_async=True, exec_pipelined=True, exec_dynamic=False, prefetch_queue_depth=2)
def frame_pipeline(root, height, width):
    encoded, _ = fn.readers.file(file_root=root, random_shuffle=False, name="reader")
    frames = fn.decoders.image(encoded, device="mixed", output_type=types.GRAY)
    frames = fn.resize(frames, device="gpu", resize_x=width, resize_y=height)
    return fn.cast(frames, dtype=types.FLOAT)


class FrameSource:
    """Yields one batch of frames at a time as CuPy arrays."""

    def __init__(self, root, batch_size, height=540, width=960, device_id=0):
        self.pipe = frame_pipeline(root, height, width, batch_size=batch_size,
                                   num_threads=4, device_id=device_id)
        self.pipe.build()
        self.batches = self.pipe.epoch_size("reader") // batch_size

    def next_frames(self):
        (frames,) = self.pipe.run()
        return cp.asarray(frames.as_tensor())[..., 0]


class WindowBuilder:
    """Groups consecutive batches into windows that overlap by one batch."""

    def __init__(self, source, length):
        self.source = source
        self.length = length
        self.tail = None

    def __len__(self):
        return (self.source.batches - 1) // (self.length - 1)

    def next_window(self):
        head = [] if self.tail is None else [self.tail]
        frames = head + [self.source.next_frames() for _ in range(self.length - len(head))]
        self.tail = frames[-1]
        return cp.stack(frames, axis=1)


GRADIENTS = cp.ElementwiseKernel(
    "raw float32 w, int32 t, int32 h, int32 c",
    "float32 gt",
    """
    int x = i % c, y = (i / c) % h;
    int k = (i / (c * h)) % (t - 1);
    int b = i / (c * h * (t - 1));
    int p = ((b * t + k) * h + y) * c + x;
    gt = w[p + h * c] - w[p];
    """,
    "temporal_gradient",
)


def motion_energy(window):
    b, t, h, c = window.shape
    gt = cp.empty((b, t - 1, h, c), dtype=cp.float32)
    GRADIENTS(window, t, h, c, gt)
    return cp.sqrt(cp.square(gt).mean(axis=(2, 3)))


def main(root="/data/frames"):
    source = FrameSource(root, batch_size=8)
    windows = WindowBuilder(source, length=5)
    energies = []
    for _ in range(len(windows)):
        energies.append(cp.asnumpy(motion_energy(windows.next_window())))
    print(len(energies), sum(float(e.mean()) for e in energies))


if __name__ == "__main__":
    main()
