"""Thin helpers over cuda-python."""
from cuda.bindings import driver as cu
from cuda.bindings import nvrtc


def check(result):
    err, *values = result
    if int(err) != 0:
        raise RuntimeError(f"CUDA call failed: {err}")
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


def open_device(index=0):
    check(cu.cuInit(0))
    device = check(cu.cuDeviceGet(index))
    context = check(cu.cuDevicePrimaryCtxRetain(device))
    check(cu.cuCtxSetCurrent(context))
    return device


def new_stream():
    return check(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))


def new_event():
    return check(cu.cuEventCreate(cu.CUevent_flags.CU_EVENT_DISABLE_TIMING))


def build(source, name, device):
    major = check(cu.cuDeviceGetAttribute(
        cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = check(cu.cuDeviceGetAttribute(
        cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    program = check(nvrtc.nvrtcCreateProgram(source.encode(), b"k.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture=sm_{major}{minor}".encode()]))
    size = check(nvrtc.nvrtcGetCUBINSize(program))
    image = b" " * size
    check(nvrtc.nvrtcGetCUBIN(program, image))
    module = check(cu.cuModuleLoadData(image))
    return check(cu.cuModuleGetFunction(module, name.encode()))
