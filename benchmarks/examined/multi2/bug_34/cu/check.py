from cuda import cudart


def ok(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1].decode())
    if not rest:
        return None
    return rest[0] if len(rest) == 1 else tuple(rest)
