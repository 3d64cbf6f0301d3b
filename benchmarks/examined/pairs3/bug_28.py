"""Audio tagging with TensorRT: uploads on their own PyCUDA stream."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt


class Tagger:
    def __init__(self, plan, window=160000, tags=527, depth=4):
        self.logger = trt.Logger(trt.Logger.WARNING)
        with open(plan, "rb") as f:
            self.engine = trt.Runtime(self.logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.waves = [cuda.pagelocked_empty((1, window), np.float32) for _ in range(depth)]
        self.probs = [cuda.pagelocked_empty((1, tags), np.float32) for _ in range(depth)]
        self.d_wave = cuda.mem_alloc(self.waves[0].nbytes)
        self.d_probs = cuda.mem_alloc(self.probs[0].nbytes)
        self.context.set_tensor_address("wave", int(self.d_wave))
        self.context.set_tensor_address("probs", int(self.d_probs))
        self.copy, self.infer = cuda.Stream(), cuda.Stream()
        self.arrived = [cuda.Event() for _ in range(depth)]
        self.finished = [cuda.Event() for _ in range(depth)]

    def enqueue(self, slot, wave):
        self.waves[slot][0] = wave
        cuda.memcpy_htod_async(self.d_wave, self.waves[slot], self.copy)
        self.arrived[slot].record(self.copy)
        self.infer.wait_for_event(self.arrived[slot])
        self.context.execute_async_v3(self.infer.handle)
        cuda.memcpy_dtoh_async(self.probs[slot], self.d_probs, self.infer)
        self.finished[slot].record(self.infer)

    def collect(self, slot):
        self.finished[slot].synchronize()
        return self.probs[slot][0].copy()

    def tag(self, waves):
        depth = len(self.waves)
        out = []
        for i, wave in enumerate(waves):
            if i >= depth:
                out.append(self.collect(i % depth))
            self.enqueue(i % depth, wave)
        for j in range(max(0, len(waves) - depth), len(waves)):
            out.append(self.collect(j % depth))
        return np.stack(out)


if __name__ == "__main__":
    clips = np.load("clips.npy", mmap_mode="r")
    np.save("tags.npy", Tagger("ast.plan").tag(clips))
