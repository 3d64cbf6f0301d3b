"""Frame statistics with DALI's fine-grained pipeline API and zero-copy CuPy views of the outputs."""
import cupy as cp
import numpy as np
from nvidia.dali import fn, pipeline_def, types


@pipeline_def
def video_pipeline(files, sequence_length):
    frames = fn.readers.video(
        device="gpu",
        filenames=files,
        sequence_length=sequence_length,
        random_shuffle=False,
        name="reader",
    )
    frames = fn.resize(frames, resize_x=640, resize_y=360)
    return fn.cast(frames, dtype=types.FLOAT)


class TemporalStatistics:
    """Running mean and motion energy over all sequences."""

    def __init__(self, shape):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.mean = cp.zeros(shape, dtype=cp.float32)
            self.motion = cp.zeros(shape, dtype=cp.float32)
        self.count = 0

    def update(self, batch):
        with self.stream:
            for sequence in batch:
                self.count += 1
                self.mean += (sequence.mean(axis=0) - self.mean) / np.float32(self.count)
                self.motion += cp.abs(sequence[1:] - sequence[:-1]).mean(axis=0)

    def result(self):
        with self.stream:
            motion = self.motion / np.float32(max(self.count, 1))
        return self.mean.get(stream=self.stream), motion.get(stream=self.stream)


class SequenceLoop:
    def __init__(self, files, batch_size=4, sequence_length=16):
        self.pipe = video_pipeline(
            files,
            sequence_length,
            batch_size=batch_size,
            num_threads=2,
            device_id=0,
            prefetch_queue_depth=2,
        )
        self.pipe.build()
        self.batches = self.pipe.epoch_size("reader") // batch_size
        self.statistics = TemporalStatistics((360, 640, 3))

    def run(self):
        pipe = self.pipe
        for _ in range(2):
            pipe.schedule_run()
        for k in range(self.batches):
            (frames,) = pipe.share_outputs()
            batch = cp.asarray(frames.as_tensor())
            self.statistics.update(batch)
            pipe.release_outputs()
            if k + 2 < self.batches:
                pipe.schedule_run()
        return self.statistics.result()


def main():
    mean, motion = SequenceLoop([f"clips/{k:04d}.mp4" for k in range(64)]).run()
    np.savez("statistics.npz", mean=mean, motion=motion)
    print(mean.mean(), motion.max())


if __name__ == "__main__":
    main()
