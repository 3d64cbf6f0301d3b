"""TensorRT detector stage inside a PyTorch pipeline."""
import tensorrt as trt
import torch


def load_engine(path):
    logger = trt.Logger(trt.Logger.ERROR)
    with open(path, "rb") as handle:
        return trt.Runtime(logger).deserialize_cuda_engine(handle.read())


class DetectorStage:
    """Wraps an engine; call it with device tensors on the current stream."""

    def __init__(self, path, outputs):
        self.engine = load_engine(path)
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream()
        self.output_shapes = outputs

    def __call__(self, image):
        caller = torch.cuda.current_stream()
        image = image.contiguous()
        self.stream.wait_stream(caller)
        image.record_stream(self.stream)
        self.context.set_tensor_address("image", image.data_ptr())
        results = {}
        with torch.cuda.stream(self.stream):
            for name, shape in self.output_shapes.items():
                results[name] = torch.empty(shape, device="cuda")
                self.context.set_tensor_address(name, results[name].data_ptr())
            self.context.execute_async_v3(stream_handle=self.stream.cuda_stream)
        caller.wait_stream(self.stream)
        for tensor in results.values():
            tensor.record_stream(caller)
        return results


def main(path="detector.plan"):
    stage = DetectorStage(path, {"boxes": (100, 4), "scores": (100,)})
    kept = 0
    for seed in range(40):
        torch.manual_seed(seed)
        frame = torch.rand(1, 3, 640, 640, device="cuda")
        out = stage(frame * 2.0 - 1.0)
        kept += int((out["scores"] > 0.5).sum().item())
    print(kept)


if __name__ == "__main__":
    main()
