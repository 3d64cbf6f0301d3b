"""DALI image pipeline feeding channel statistics in CuPy."""
import cupy as cp
from nvidia.dali import fn, pipeline_def, types


@pipeline_def(batch_size=64, num_threads=4, device_id=0, prefetch_queue_depth=2)
def images(root):
    jpegs, _ = fn.readers.file(file_root=root, random_shuffle=True, name="files")
    out = fn.decoders.image(jpegs, device="mixed")
    out = fn.resize(out, size=(224, 224))
    return fn.crop_mirror_normalize(out, dtype=types.FLOAT, output_layout="CHW",
                                    mean=[124.0, 116.0, 104.0], std=[58.0, 57.0, 57.0])


class DaliSource:
    def __init__(self, root, batch=64):
        self.pipe = images(root)
        self.pipe.build()
        self.batch = batch
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.pipe.schedule_run()

    def __next__(self):
        (output,) = self.pipe.share_outputs()
        with self.stream:
            target = cp.empty((self.batch, 3, 224, 224), cp.float32)
        output.as_tensor().copy_to_external(target.data.ptr, cuda_stream=self.stream.ptr,
                                            non_blocking=True)
        self.stream.synchronize()
        self.pipe.release_outputs()
        self.pipe.schedule_run()
        return target


def channel_stats(source, batches):
    with source.stream:
        mean = cp.zeros(3, cp.float64)
        for _ in range(batches):
            mean += next(source).mean(axis=(0, 2, 3))
        return (mean / batches).get()


if __name__ == "__main__":
    print(channel_stats(DaliSource("/data/imagenet/train"), 1000))
