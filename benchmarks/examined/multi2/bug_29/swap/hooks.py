from torch import nn


def _bind(block, room):
    for name, p in block.named_parameters():
        p.data = room[name]


def attach(blocks, swapper):
    """Every block gets its weights before it runs and gives its room to the
    block `keep` places later once it is done."""

    handles = []

    def before(index):
        def hook(module, args):
            at = swapper.wait_for_block(index)
            assert at == index
            _bind(module, swapper.room_of(index))
        return hook

    def after(index):
        def hook(module, args, out):
            swapper.submit_move(index + swapper.keep)
            return out
        return hook

    for i, block in enumerate(blocks):
        assert isinstance(block, nn.Module)
        handles.append(block.register_forward_pre_hook(before(i)))
        handles.append(block.register_forward_hook(after(i)))
    return handles
