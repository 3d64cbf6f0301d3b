import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *values = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA runtime error: {err}")
    return values[0] if len(values) == 1 else tuple(values)


class MessageGraph:
    def __init__(self, graph, graph_exec, payload, d_src, d_dst, nbytes):
        self.graph = graph
        self.payload = payload
        self.graph_exec = graph_exec
        self.d_src = d_src
        self.d_dst = d_dst
        self.nbytes = nbytes

    def launch(self, stream):
        check(cudart.cudaGraphLaunch(self.graph_exec, stream))

    def fetch(self, stream):
        out = np.empty(self.nbytes, dtype=np.uint8)
        check(cudart.cudaMemcpyAsync(
            out.ctypes.data, self.d_dst, self.nbytes,
            cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, stream,
        ))
        check(cudart.cudaStreamSynchronize(stream))
        return out.tobytes()

    def close(self):
        check(cudart.cudaGraphExecDestroy(self.graph_exec))
        check(cudart.cudaGraphDestroy(self.graph))
        check(cudart.cudaFree(self.d_src))
        check(cudart.cudaFree(self.d_dst))


def make_graph(message, repeat):
    payload = np.tile(np.frombuffer(message, dtype=np.uint8), repeat)
    nbytes = payload.nbytes
    d_src = check(cudart.cudaMalloc(nbytes))
    d_dst = check(cudart.cudaMalloc(nbytes))

    graph = check(cudart.cudaGraphCreate(0))
    upload = check(cudart.cudaGraphAddMemcpyNode1D(
        graph, None, 0, d_src, payload.ctypes.data, nbytes,
        cudart.cudaMemcpyKind.cudaMemcpyHostToDevice,
    ))
    check(cudart.cudaGraphAddMemcpyNode1D(
        graph, [upload], 1, d_dst, d_src, nbytes,
        cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice,
    ))
    graph_exec = check(cudart.cudaGraphInstantiate(graph, 0))
    return MessageGraph(graph, graph_exec, payload, d_src, d_dst, nbytes)


def broadcast(messages, rounds):
    stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
    graphs = [make_graph(m, 1 << 16) for m in messages]
    log = []
    try:
        for _ in range(rounds):
            for g in graphs:
                g.launch(stream)
                log.append(g.fetch(stream))
    finally:
        for g in graphs:
            g.close()
        check(cudart.cudaStreamDestroy(stream))
    return log
