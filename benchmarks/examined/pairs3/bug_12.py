"""Wrap a DALI pipeline as an iterator of CuPy arrays for the embedding job."""
import cupy as cp
import numpy as np
from nvidia.dali import fn, pipeline_def, types


@pipeline_def(batch_size=32, num_threads=4, device_id=0)
def clips(files):
    video = fn.readers.video(device="gpu", filenames=files, sequence_length=8, name="video")
    small = fn.resize(video, size=(112, 112))
    return fn.crop_mirror_normalize(small, dtype=types.FLOAT, output_layout="FCHW",
                                    mean=[128.0] * 3, std=[64.0] * 3)


class ClipIterator:
    shape = (32, 8, 3, 112, 112)

    def __init__(self, files):
        self.pipe = clips(files)
        self.pipe.build()
        self.copies = cp.cuda.Stream(non_blocking=True)
        for _ in range(2):
            self.pipe.schedule_run()

    def __iter__(self):
        return self

    def __next__(self):
        (out,) = self.pipe.share_outputs()
        with self.copies:
            batch = cp.empty(self.shape, cp.float32)
        out.as_tensor().copy_to_external(batch.data.ptr, cuda_stream=self.copies.ptr,
                                         non_blocking=True)
        self.pipe.release_outputs()
        self.pipe.schedule_run()
        return batch


def embed(iterator, weights, count):
    vectors = []
    with iterator.copies:
        for _, clip in zip(range(count), iterator):
            flat = clip.reshape(clip.shape[0], -1)
            vectors.append(cp.asnumpy(flat @ weights))
    return np.concatenate(vectors)


if __name__ == "__main__":
    it = ClipIterator([f"/data/kinetics/{i:04d}.mp4" for i in range(400)])
    with it.copies:
        w = cp.random.standard_normal((8 * 3 * 112 * 112, 256), dtype=cp.float32)
    np.save("clips.npy", embed(it, w, 500))
