import numpy as np
import tensorrt as trt
import torch


def load_engine(path):
    logger = trt.Logger(trt.Logger.WARNING)
    with open(path, "rb") as f, trt.Runtime(logger) as runtime:
        engine = runtime.deserialize_cuda_engine(f.read())
    return engine, engine.create_execution_context()


class TrackerHead:

    def __init__(self, engine_path, device="cuda:0"):
        self.device = torch.device(device)
        self.engine, self.context = load_engine(engine_path)
        self.mean = torch.tensor([0.485, 0.456, 0.406], device=self.device).view(1, 3, 1, 1)
        self.std = torch.tensor([0.229, 0.224, 0.225], device=self.device).view(1, 3, 1, 1)
        self.input_names = ["im_patches", "train_feat", "target_labels", "train_ltrb"]
        self.output_names = ["scores", "bbox_preds"]

    def preprocess(self, im_patches: np.ndarray) -> torch.Tensor:
        t = torch.from_numpy(im_patches).pin_memory().to(self.device, non_blocking=True)
        t = t.permute(0, 3, 1, 2).float().div_(255.0)
        return ((t - self.mean) / self.std).contiguous()

    def infer(self, im_patches, train_feat, target_labels, train_ltrb):
        inputs = [
            self.preprocess(im_patches),
            train_feat.contiguous(),
            target_labels.float().contiguous(),
            train_ltrb.float().contiguous(),
        ]
        scores = torch.empty((1, 1, 18, 18), dtype=torch.float32, device=self.device)
        boxes = torch.empty((1, 1, 4, 18, 18), dtype=torch.float32, device=self.device)

        for name, tensor in zip(self.input_names, inputs):
            self.context.set_input_shape(name, tuple(tensor.shape))
            self.context.set_tensor_address(name, tensor.data_ptr())
        self.context.set_tensor_address(self.output_names[0], scores.data_ptr())
        self.context.set_tensor_address(self.output_names[1], boxes.data_ptr())

        stream = torch.cuda.Stream(self.device)
        self.context.execute_async_v3(stream_handle=stream.cuda_stream)
        stream.synchronize()
        return scores, boxes


class Tracker:

    def __init__(self, backbone, head):
        self.backbone = backbone
        self.head = head
        self.train_feat = None

    @torch.no_grad()
    def track(self, frame, labels, ltrb):
        if self.train_feat is None:
            self.train_feat = self.backbone(self.head.preprocess(frame))
        scores, boxes = self.head.infer(frame, self.train_feat, labels, ltrb)
        idx = int(scores.flatten().argmax())
        return boxes.flatten(3)[..., idx], float(scores.max())
