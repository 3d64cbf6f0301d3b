import logging

import numpy as np
import ucp
from distributed.comm.core import Comm, CommClosedError
from distributed.comm.utils import from_frames, to_frames
from distributed.utils import nbytes

logger = logging.getLogger(__name__)

cuda_array = None


def init_once():
    global cuda_array
    if cuda_array is not None:
        return
    try:
        import rmm

        cuda_array = lambda n: rmm.DeviceBuffer(size=n)  # noqa: E731
    except ImportError:
        import numba.cuda

        cuda_array = lambda n: numba.cuda.device_array((n,), dtype=np.uint8)  # noqa: E731


def synchronize_stream(stream=0):
    import numba.cuda

    ctx = numba.cuda.current_context()
    cu_stream = numba.cuda.driver.drvapi.cu_stream(stream)
    stream = numba.cuda.driver.Stream(ctx, cu_stream, None)
    stream.synchronize()


class UCX(Comm):
    def __init__(self, ep, local_addr, peer_addr, deserialize=True):
        Comm.__init__(self)
        self._ep = ep
        self._local_addr = local_addr
        self._peer_addr = peer_addr
        self.deserialize = deserialize
        init_once()

    @property
    def ep(self):
        if self._ep is None:
            raise CommClosedError("UCX Endpoint is closed")
        return self._ep

    async def write(self, msg, serializers=("cuda", "dask", "pickle", "error"), on_error="message"):
        frames = await to_frames(msg, serializers=serializers, on_error=on_error)
        hosts = [not hasattr(f, "__cuda_array_interface__") for f in frames]
        is_cudas = np.array([not h for h in hosts], dtype=bool)
        await self.ep.send(np.array([len(frames)], dtype=np.uint64))
        await self.ep.send(is_cudas)
        await self.ep.send(np.array([nbytes(f) for f in frames], dtype=np.uint64))

        # It is necessary to first synchronize the default stream before start sending
        # We synchronize the default stream because UCX is not stream-ordered and
        #  syncing the default stream will wait for other non-blocking CUDA streams.
        # Note this is only sufficient if the memory being sent is not currently in use on
        # non-blocking CUDA streams.
        if is_cudas.any():
            synchronize_stream(0)

        for each_frame in frames:
            if nbytes(each_frame) > 0:
                await self.ep.send(each_frame)
        return sum(map(nbytes, frames))

    async def read(self, deserializers=("cuda", "dask", "pickle", "error")):
        nframes = np.empty(1, dtype=np.uint64)
        await self.ep.recv(nframes)
        is_cudas = np.empty(nframes[0], dtype=bool)
        await self.ep.recv(is_cudas)
        sizes = np.empty(nframes[0], dtype=np.uint64)
        await self.ep.recv(sizes)

        frames = [
            cuda_array(size) if is_cuda else np.empty(size, dtype=np.uint8)
            for is_cuda, size in zip(is_cudas.tolist(), sizes.tolist())
        ]
        # The default stream is synchronized to ensure buffers have been allocated
        if is_cudas.any():
            synchronize_stream(0)
        for each_frame in frames:
            if nbytes(each_frame) > 0:
                await self.ep.recv(each_frame)
        return await from_frames(frames, deserialize=self.deserialize, deserializers=deserializers)
