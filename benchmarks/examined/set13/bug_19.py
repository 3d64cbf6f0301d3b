import collections.abc as collections
from typing import Callable

import cv2
import numpy as np
import torch


def map_tensor(input_, func: Callable):
    if isinstance(input_, (str, bytes)):
        return input_
    elif isinstance(input_, collections.Mapping):
        return {k: map_tensor(sample, func) for k, sample in input_.items()}
    elif isinstance(input_, collections.Sequence):
        return [map_tensor(sample, func) for sample in input_]
    elif isinstance(input_, torch.Tensor):
        return func(input_)
    return input_


def batch_to_device(batch: dict, device: str = "cpu", non_blocking: bool = True):
    """Move batch (dict) to device"""

    def _func(tensor):
        return tensor.to(device=device, non_blocking=non_blocking).detach()

    return map_tensor(batch, _func)


def rbd(data: dict) -> dict:
    """Remove batch dimension from elements in data"""
    return {k: v[0] if isinstance(v, (torch.Tensor, np.ndarray, list)) else v for k, v in data.items()}


def match_pair(extractor, matcher, image0, image1, device: str = "cpu", **preprocess):
    """Match a pair of images (image0, image1) with an extractor and matcher"""
    feats0 = extractor.extract(image0, **preprocess)
    feats1 = extractor.extract(image1, **preprocess)
    matches01 = matcher({"image0": feats0, "image1": feats1})
    data = [feats0, feats1, matches01]
    feats0, feats1, matches01 = [batch_to_device(rbd(x), device) for x in data]
    return feats0, feats1, matches01


def estimate_homography(extractor, matcher, image0, image1, thresh=3.0):
    feats0, feats1, matches01 = match_pair(extractor, matcher, image0.cuda(), image1.cuda())
    matches = matches01["matches"].numpy()
    if len(matches) < 4:
        return None, 0
    pts0 = feats0["keypoints"].numpy()[matches[:, 0]]
    pts1 = feats1["keypoints"].numpy()[matches[:, 1]]
    H, inliers = cv2.findHomography(pts0, pts1, cv2.USAC_MAGSAC, thresh)
    return H, int(inliers.sum()) if inliers is not None else 0


def stitch_sequence(extractor, matcher, frames):
    pose = np.eye(3)
    poses = [pose]
    for prev, cur in zip(frames[:-1], frames[1:]):
        with torch.inference_mode():
            H, n = estimate_homography(extractor, matcher, prev, cur)
        pose = pose @ (np.linalg.inv(H) if H is not None and n > 15 else np.eye(3))
        poses.append(pose)
    return poses
