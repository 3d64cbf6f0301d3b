"""TensorRT pose estimator with PyTorch pre- and postprocessing."""
import tensorrt as trt
import torch
import torch.nn.functional as F


class TrtModule:
    """Callable engine; inputs and outputs are torch tensors."""

    def __init__(self, plan):
        self.logger = trt.Logger(trt.Logger.ERROR)
        self.runtime = trt.Runtime(self.logger)
        with open(plan, "rb") as f:
            self.engine = self.runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream()

    def __call__(self, image, heatmaps):
        self.context.set_input_shape("image", tuple(image.shape))
        self.context.set_tensor_address("image", image.data_ptr())
        self.context.set_tensor_address("heatmaps", heatmaps.data_ptr())
        ok = self.context.execute_async_v3(self.stream.cuda_stream)
        if not ok:
            raise RuntimeError("execution failed")
        self.stream.synchronize()
        return heatmaps


class PoseEstimator:
    def __init__(self, plan, joints=17):
        self.module = TrtModule(plan)
        self.heatmaps = torch.empty(1, joints, 64, 48, device="cuda")
        self.mean = torch.tensor([0.485, 0.456, 0.406], device="cuda").view(1, 3, 1, 1)
        self.std = torch.tensor([0.229, 0.224, 0.225], device="cuda").view(1, 3, 1, 1)

    def crop(self, frame, box):
        x0, y0, x1, y1 = box
        patch = frame[None, :, y0:y1, x0:x1].float() / 255
        patch = F.interpolate(patch, size=(256, 192), mode="bilinear", antialias=True)
        return ((patch - self.mean) / self.std).contiguous()

    def joints(self, frame, box):
        image = self.crop(frame, box)
        maps = self.module(image, self.heatmaps)
        flat = maps.flatten(2).argmax(-1)
        return torch.stack([flat % 48, flat // 48], -1).cpu()


def main():
    estimator = PoseEstimator("pose.plan")
    tracks = []
    for i in range(100):
        frame = torch.randint(0, 256, (3, 720, 1280), dtype=torch.uint8).pin_memory().cuda(non_blocking=True)
        for box in ((100, 50, 400, 650), (600, 80, 900, 700)):
            tracks.append(estimator.joints(frame, box))
    print(torch.cat(tracks).float().mean((0, 1)))


if __name__ == "__main__":
    main()
