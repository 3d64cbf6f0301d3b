import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.WARNING)


class HostDeviceMem(object):
    def __init__(self, host_mem, device_mem):
        self.host = host_mem
        self.device = device_mem


def allocate_buffers(engine, context):
    inputs, outputs, bindings = [], [], []
    for binding in engine:
        index = engine.get_binding_index(binding)
        size = trt.volume(context.get_binding_shape(index))
        dtype = trt.nptype(engine.get_binding_dtype(binding))
        host_mem = cuda.pagelocked_empty(size, dtype)
        device_mem = cuda.mem_alloc(host_mem.nbytes)
        bindings.append(int(device_mem))
        if engine.binding_is_input(binding):
            inputs.append(HostDeviceMem(host_mem, device_mem))
        else:
            outputs.append(HostDeviceMem(host_mem, device_mem))
    return inputs, outputs, bindings


def do_inference_v2(context, bindings, inputs, outputs, stream):
    # Transfer input data to the GPU.
    [cuda.memcpy_htod_async(inp.device, inp.host, stream) for inp in inputs]
    # Run inference.
    context.execute_async_v2(bindings=bindings, stream_handle=stream.handle)
    # Transfer predictions back from the GPU.
    [cuda.memcpy_dtoh_async(out.host, out.device, stream) for out in outputs]
    # Return only the host outputs.
    return [out.host for out in outputs]


class MultiStreamRunner(object):
    def __init__(self, engine_path, num_streams, input_shape):
        with open(engine_path, "rb") as f, trt.Runtime(TRT_LOGGER) as runtime:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.input_shape = input_shape
        self.streams = [cuda.Stream() for _ in range(num_streams)]
        self.contexts = []
        self.buffers = []
        for i in range(num_streams):
            context = self.engine.create_execution_context()
            context.set_optimization_profile_async(i, self.streams[i].handle)
            self.streams[i].synchronize()
            context.set_binding_shape(0, input_shape)
            self.contexts.append(context)
            self.buffers.append(allocate_buffers(self.engine, context))

    def infer(self, batches):
        results = []
        for i, batch in enumerate(batches):
            slot = i % len(self.streams)
            inputs, outputs, bindings = self.buffers[slot]
            self.streams[slot].synchronize()
            np.copyto(inputs[0].host, batch.ravel())
            trt_outputs = do_inference_v2(self.contexts[slot], bindings, inputs, outputs, self.streams[slot])
            logits = trt_outputs[0].reshape(self.input_shape[0], -1)
            results.append(logits.argmax(axis=1))
        return np.concatenate(results)
