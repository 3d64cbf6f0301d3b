import os
import pickle
from time import time
from typing import Callable, List, Optional, Tuple

import torch
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItemType


def _split_by_size_and_type(bins: int, items):
    if bins == 1:
        return [items]
    bytes_items = [wi for wi in items if wi.type == WriteItemType.BYTE_IO]
    tensor_items = [wi for wi in items if wi.type != WriteItemType.BYTE_IO]
    buckets = [[] for _ in range(bins)]
    for i, wi in enumerate(bytes_items):
        buckets[i % bins].append(wi)
    for i, wi in enumerate(tensor_items):
        buckets[i % bins].append(wi)
    return buckets


class FileSystemWriterAsync:
    """Writes checkpoints in two phases: preload to host, then write to disk."""

    def __init__(self, path: str, thread_count: int = 1):
        self.path = path
        self.thread_count = thread_count
        self.write_buckets: Optional[List[Tuple]] = None

    def prepare_write_data(self, plan: SavePlan, planner: SavePlanner) -> None:
        start = time()
        item_buckets = _split_by_size_and_type(self.thread_count, plan.items)
        file_count = 0
        self.write_buckets = []
        for bucket in item_buckets:
            if not bucket:
                continue
            bytes_data = [
                (item, planner.resolve_data(item)) for item in bucket if item.type == WriteItemType.BYTE_IO
            ]
            tensor_data = [
                (item, planner.resolve_data(item).detach().to("cpu", non_blocking=True))
                for item in bucket
                if item.type != WriteItemType.BYTE_IO
            ]
            file_name = f"__{file_count}_{plan.storage_data}.distcp"
            file_count += 1
            self.write_buckets.append((os.path.join(self.path, file_name), file_name, (bytes_data, tensor_data)))
        self.d2h_time = time() - start

    def get_save_function_and_args(self) -> Tuple[Optional[Callable], Tuple]:
        if not self.write_buckets:
            return None, ()
        return self.write_preloaded_data_all, (self.write_buckets,)

    @staticmethod
    def write_preloaded_data_all(write_buckets: List[Tuple]) -> List[str]:
        written = []
        for write_bucket in write_buckets:
            written.append(FileSystemWriterAsync.write_preloaded_data(write_bucket))
        return written

    @staticmethod
    def write_preloaded_data(write_bucket: Tuple) -> str:
        file_path, storage_key, (bytes_data, tensor_data) = write_bucket
        with open(file_path, "wb") as stream:
            for write_item, data in bytes_data:
                pickle.dump((write_item.index, data.getvalue()), stream)
            for write_item, tensor in tensor_data:
                assert tensor.is_cpu
                torch.save(tensor, stream)
            os.fsync(stream.fileno())
        return storage_key


def save_state_dict(writer: FileSystemWriterAsync, plan: SavePlan, planner: SavePlanner):
    writer.prepare_write_data(plan, planner)
    save_fn, args = writer.get_save_function_and_args()
    if save_fn is not None:
        return save_fn(*args)
    return []
