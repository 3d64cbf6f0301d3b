import logging
from typing import Optional, Tuple

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

from .kernels import Sm100PersistentGemmAmaxKernel

_cache_of_objects = {}


class APIBase:
    def __init__(self):
        self._logger = logging.getLogger(self.__class__.__name__)
        self._compiled_kernel = None

    def _get_default_stream(self, stream: Optional[cuda.CUstream]) -> cuda.CUstream:
        if stream is None:
            self._logger.debug("no stream given, using the default stream")
            return cutlass.cuda.default_stream()
        return stream

    def compile(self, current_stream: Optional[cuda.CUstream] = None) -> None:
        raise NotImplementedError

    def execute(self, *args, current_stream: Optional[cuda.CUstream] = None) -> None:
        raise NotImplementedError


class GemmAmaxSm100(APIBase):
    def __init__(self, sample_a, sample_b, sample_c, sample_amax, mma_tiler_mn=(128, 128)):
        super().__init__()
        self.samples = (sample_a, sample_b, sample_c, sample_amax)
        self._kernel = Sm100PersistentGemmAmaxKernel(cutlass.Float32, mma_tiler_mn)

    def compile(self, current_stream: Optional[cuda.CUstream] = None) -> None:
        current_stream = self._get_default_stream(current_stream)
        tensors = [from_dlpack(t, assumed_align=16) for t in self.samples]
        self._compiled_kernel = cute.compile(self._kernel, *tensors, current_stream)

    def execute(self, a, b, c, amax, current_stream: Optional[cuda.CUstream] = None) -> None:
        current_stream = self._get_default_stream(current_stream)
        if self._compiled_kernel is None:
            raise RuntimeError("GemmAmaxSm100 kernel not compiled; call compile() first")
        tensors = [from_dlpack(t, assumed_align=16) for t in (a, b, c, amax)]
        self._compiled_kernel(*tensors, current_stream)


def gemm_amax_wrapper_sm100(a: torch.Tensor, b: torch.Tensor, c_dtype: torch.dtype,
                            stream: Optional[cuda.CUstream] = None) -> Tuple[torch.Tensor, torch.Tensor]:
    c = torch.empty((a.shape[0], b.shape[0]), dtype=c_dtype, device=a.device)
    amax = torch.full((1,), -float("inf"), dtype=torch.float32, device=a.device)
    key = (a.shape, b.shape, a.dtype, c_dtype)
    api = _cache_of_objects.get(key)
    if api is None:
        api = GemmAmaxSm100(a, b, c, amax)
        api.compile(current_stream=stream)
        _cache_of_objects[key] = api
    api.execute(a, b, c, amax, current_stream=stream)
    return c, amax


class SharedExpertFp8(torch.nn.Module):
    def __init__(self, weight: torch.Tensor, scale: torch.Tensor):
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.aux_stream = torch.cuda.Stream()

    def forward(self, x: torch.Tensor, routed_fn) -> torch.Tensor:
        main = torch.cuda.current_stream()
        self.aux_stream.wait_stream(main)
        with torch.cuda.stream(self.aux_stream):
            xq = (x * self.scale).clamp_(-448, 448).to(torch.float8_e4m3fn)
            shared, amax = gemm_amax_wrapper_sm100(xq, self.weight, torch.bfloat16)
            shared = shared / amax.clamp_min(1.0)
        routed = routed_fn(x)
        main.wait_stream(self.aux_stream)
        shared.record_stream(main)
        return routed + shared
