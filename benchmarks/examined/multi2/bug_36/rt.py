from cuda import cudart

HOST_TO_DEVICE = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
DEVICE_TO_DEVICE = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
DEVICE_TO_HOST = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def call(name, *args):
    err, *rest = getattr(cudart, name)(*args)
    if int(err) != 0:
        raise RuntimeError(f"{name}: {err}")
    return rest[0] if rest else None


def stream():
    return call("cudaStreamCreateWithFlags", cudart.cudaStreamNonBlocking)


def event():
    return call("cudaEventCreateWithFlags", cudart.cudaEventDisableTiming)


class Gate:
    """Opened on one stream, passed on another."""

    def __init__(self):
        self._event = event()

    def open(self, s):
        call("cudaEventRecord", self._event, s)

    def passing(self, s):
        call("cudaStreamWaitEvent", s, self._event, 0)
