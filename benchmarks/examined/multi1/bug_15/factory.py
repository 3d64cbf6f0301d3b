from torch import nn

from engines import DirectEngine, LaneEngine

ENGINES = {
    "direct": DirectEngine,
    "lane": LaneEngine,
}

DEFAULTS = {
    "engine": "lane",
    "batch": 128,
    "width": 640,
    "classes": 512,
}


def make_model(width, classes):
    body = [nn.Linear(width, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU()]
    return nn.Sequential(*body, nn.Linear(4096, classes)).to("cuda").eval()


def make_engine(**overrides):
    cfg = {**DEFAULTS, **overrides}
    model = make_model(cfg["width"], cfg["classes"])
    return ENGINES[cfg["engine"]](model, cfg["batch"], cfg["classes"]), cfg
