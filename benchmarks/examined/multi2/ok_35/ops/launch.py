from collections import namedtuple
from functools import lru_cache

import cupy
import torch

Stream = namedtuple("Stream", ["ptr"])


@lru_cache(maxsize=None)
def kernel(name, source):
    return cupy.RawKernel(source, name)


def run(fn, grid, block, args):
    here = Stream(ptr=torch.cuda.current_stream().cuda_stream)
    fn(grid, block, args, stream=here)


def pointers(*tensors):
    return [t.data_ptr() for t in tensors]
