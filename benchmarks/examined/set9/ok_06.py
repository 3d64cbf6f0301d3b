import ctypes

import torch
from cuda.bindings import driver as cu


class DriverBase:
    def get_active_torch_device(self):
        raise NotImplementedError

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: int):
        raise NotImplementedError


class GPUDriver(DriverBase):
    def __init__(self):
        self.get_device_capability = torch.cuda.get_device_capability
        self.get_current_stream = torch._C._cuda_getCurrentRawStream
        self.get_current_device = torch.cuda.current_device
        self.set_current_device = torch.cuda.set_device

    def get_device_interface(self):
        return torch.cuda

    def get_active_torch_device(self):
        return torch.device("cuda", self.get_current_device())

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: int):
        device = self.get_active_torch_device()
        device_interface = self.get_device_interface()
        if stream == 0:
            launch_stream = device_interface.default_stream(device)
        else:
            launch_stream = device_interface.ExternalStream(stream, device=device)
        with device_interface.stream(launch_stream):
            return torch.zeros(size, dtype=torch.int8, device=device)


class CudaLauncher:
    def __init__(self, driver: GPUDriver, function, profile_scratch_size: int, profile_scratch_align: int):
        self.driver = driver
        self.function = function
        self.profile_scratch_size = profile_scratch_size
        self.profile_scratch_align = profile_scratch_align

    def __call__(self, grid, block, stream: int, *args):
        grid_x, grid_y, grid_z = grid
        scratch_ptr = 0
        if self.profile_scratch_size > 0:
            alloc_size = grid_x * grid_y * grid_z * self.profile_scratch_size
            scratch = self.driver.allocate_default_profile_scratch(
                alloc_size, self.profile_scratch_align, stream
            )
            scratch_ptr = scratch.data_ptr()
        values = tuple(a.data_ptr() if isinstance(a, torch.Tensor) else a for a in args) + (scratch_ptr,)
        types = tuple(
            ctypes.c_void_p if isinstance(a, torch.Tensor) else ctypes.c_int for a in args
        ) + (ctypes.c_void_p,)
        (err,) = cu.cuLaunchKernel(
            self.function, grid_x, grid_y, grid_z, *block, 0, stream, (values, types), 0
        )
        if err != cu.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"kernel launch failed: {err}")


class JITFunction:
    def __init__(self, launcher: CudaLauncher):
        self.launcher = launcher

    def run(self, *args, grid, num_warps=4):
        driver = self.launcher.driver
        device = driver.get_current_device()
        stream = driver.get_current_stream(device)
        self.launcher(grid, (32 * num_warps, 1, 1), stream, *args)


def sanitize_add(jit_fn: JITFunction, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    grid = ((x.numel() + 1023) // 1024, 1, 1)
    jit_fn.run(x, y, out, x.numel(), grid=grid)
    return out
