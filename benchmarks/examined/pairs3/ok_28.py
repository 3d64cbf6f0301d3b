"""Overlap of upload and inference with TensorRT's input-consumed event."""
import cupy as cp
import cupyx
import numpy as np
import tensorrt as trt


class StreamingClassifier:
    """Uploads the next frame while the tail of the network still runs."""

    def __init__(self, plan, frame_shape, classes):
        self.logger = trt.Logger(trt.Logger.WARNING)
        with open(plan, "rb") as f:
            self.engine = trt.Runtime(self.logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.frames = [cupyx.empty_pinned(frame_shape, np.float32) for _ in range(2)]
        self.scores = cupyx.empty_pinned(classes, np.float32)
        self.d_frame = cp.empty(frame_shape, cp.float32)
        self.d_scores = cp.empty(classes, cp.float32)
        cp.cuda.Device().synchronize()
        self.context.set_tensor_address("frame", self.d_frame.data.ptr)
        self.context.set_tensor_address("scores", self.d_scores.data.ptr)
        self.up = cp.cuda.Stream(non_blocking=True)
        self.run = cp.cuda.Stream(non_blocking=True)
        self.uploaded = cp.cuda.Event(disable_timing=True)
        self.consumed = cp.cuda.Event(disable_timing=True)
        self.context.set_input_consumed_event(self.consumed.ptr)
        self.k = 0

    def _upload(self, frame):
        host = self.frames[self.k % 2]
        self.k += 1
        host[...] = frame
        self.up.wait_event(self.consumed)
        self.d_frame.set(host, stream=self.up)
        self.uploaded.record(self.up)

    def classify(self, frames):
        frames = iter(frames)
        self._upload(next(frames))
        more = True
        while more:
            self.run.wait_event(self.uploaded)
            self.context.execute_async_v3(self.run.ptr)
            self.d_scores.get(stream=self.run, out=self.scores, blocking=False)
            nxt = next(frames, None)
            more = nxt is not None
            if more:
                self._upload(nxt)
            self.run.synchronize()
            yield int(self.scores.argmax())


def main():
    net = StreamingClassifier("resnet.plan", (1, 3, 224, 224), 1000)
    images = np.load("images.npy", mmap_mode="r")
    print(list(net.classify(img[None] for img in images)))


if __name__ == "__main__":
    main()
