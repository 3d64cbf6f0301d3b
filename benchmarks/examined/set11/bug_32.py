"""Iterator that hands the outputs of DALI pipelines to JAX."""
from typing import Dict, List, Optional

import jax
import jax.dlpack
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import Pipeline, pipeline_def


def _to_jax_array(dali_tensor_list, copy: bool) -> jax.Array:
    """Zero-copy view of a dense batch, or a copy that JAX owns."""
    array = jax.dlpack.from_dlpack(dali_tensor_list.as_tensor()._expose_dlpack_capsule())
    if copy:
        array = jax.numpy.copy(array)
    return array


class DALIGenericIterator:
    def __init__(self, pipelines: List[Pipeline], output_map: List[str], size: int, prepare_first_batch: bool = True):
        self._pipes = pipelines
        self._output_map = output_map
        self._size = size
        self._counter = 0
        self._first_batch: Optional[Dict[str, List[jax.Array]]] = None
        for pipe in self._pipes:
            pipe.build()
            pipe.schedule_run()
        if prepare_first_batch:
            self._first_batch = self._next_impl()
            self._counter -= self._batch_size()

    def _batch_size(self) -> int:
        return self._pipes[0].max_batch_size * len(self._pipes)

    def _gather_outputs(self) -> Dict[str, List[jax.Array]]:
        batch: Dict[str, List[jax.Array]] = {name: [] for name in self._output_map}
        for pipe in self._pipes:
            outputs = pipe.share_outputs()
            for name, output in zip(self._output_map, outputs):
                batch[name].append(_to_jax_array(output, copy=True))
        return batch

    def _schedule_runs(self) -> None:
        for pipe in self._pipes:
            pipe.release_outputs()
            pipe.schedule_run()

    def _next_impl(self) -> Dict[str, List[jax.Array]]:
        if self._counter >= self._size:
            self._counter = 0
            raise StopIteration
        self._counter += self._batch_size()
        batch = self._gather_outputs()
        self._schedule_runs()
        return batch

    def __iter__(self):
        return self

    def __next__(self) -> Dict[str, List[jax.Array]]:
        if self._first_batch is not None:
            batch, self._first_batch = self._first_batch, None
            self._counter += self._batch_size()
            return batch
        return self._next_impl()


@pipeline_def
def image_pipeline(file_root: str, shard_id: int, num_shards: int):
    jpegs, labels = fn.readers.file(file_root=file_root, shard_id=shard_id, num_shards=num_shards,
                                    random_shuffle=True, name="Reader")
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    images = fn.resize(images, resize_x=224, resize_y=224)
    images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, mean=[0.485 * 255] * 3, std=[0.229 * 255] * 3)
    return images, labels.gpu()


def make_iterator(file_root: str, batch_size: int) -> DALIGenericIterator:
    pipes = [
        image_pipeline(file_root, shard, jax.local_device_count(), batch_size=batch_size, num_threads=4, device_id=shard)
        for shard in range(jax.local_device_count())
    ]
    return DALIGenericIterator(pipes, ["images", "labels"], size=1_281_167)
