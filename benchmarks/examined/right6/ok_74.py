import multiprocessing as mp

import numpy as np


def worker(conn):
    import cupy as cp

    handle, shape = conn.recv()
    ptr = cp.cuda.runtime.ipcOpenMemHandle(handle)
    mem = cp.cuda.UnownedMemory(ptr, int(np.prod(shape)) * 4, None)
    shared = cp.ndarray(shape, cp.float32, cp.cuda.MemoryPointer(mem, 0))
    stream = cp.cuda.Stream(non_blocking=True)
    while True:
        message = conn.recv()
        if message is None:
            break
        with stream:
            result = cp.linalg.norm(shared, axis=1)
            reply = result.get()
        conn.send(reply)
    stream.synchronize()
    cp.cuda.runtime.ipcCloseMemHandle(ptr)
    conn.send("closed")


class Remote:
    """Shares one device block with a worker process; turns go over a pipe."""

    def __init__(self, shape):
        import cupy as cp

        self.cp = cp
        self.stream = cp.cuda.Stream(non_blocking=True)
        with cp.cuda.using_allocator(None):
            self.block = cp.zeros(shape, cp.float32)
        cp.cuda.Stream.null.synchronize()
        self.conn, child = mp.get_context("spawn").Pipe()
        self.proc = mp.get_context("spawn").Process(target=worker, args=(child,))
        self.proc.start()
        self.conn.send((cp.cuda.runtime.ipcGetMemHandle(self.block.data.ptr), shape))

    def norms(self, values):
        self.block.set(values, stream=self.stream)
        with self.stream:
            self.block *= 2.0
        self.stream.synchronize()
        self.conn.send("ready")
        return self.conn.recv()

    def close(self):
        self.conn.send(None)
        self.conn.recv()
        self.proc.join()
        self.block = None


def main():
    remote = Remote((128, 64))
    for k in range(4):
        x = np.full((128, 64), float(k), np.float32)
        print(k, remote.norms(x)[0])
    remote.close()


if __name__ == "__main__":
    main()
