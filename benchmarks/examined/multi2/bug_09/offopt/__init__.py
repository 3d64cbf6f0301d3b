from .adam import HostAdam
from .gradlane import GradLane

__all__ = ["HostAdam", "GradLane", "make_offloaded"]


def make_offloaded(model, lr=1e-3, **kw):
    lane = GradLane(model)
    return HostAdam(lane, lr=lr, **kw)
