from cuda.bindings import runtime as rt


def check(result):
    err, *rest = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else tuple(rest) or None


def stream():
    return check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))


def event():
    return check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))


H2D = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost
D2D = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice


def device_name(index=0):
    props = check(rt.cudaGetDeviceProperties(index))
    return props.name.decode(errors="replace")


def memory():
    """Free and total device memory in MiB."""
    free, total = check(rt.cudaMemGetInfo())
    return free >> 20, total >> 20
