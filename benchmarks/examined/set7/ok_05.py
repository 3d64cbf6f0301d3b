from typing import List, Optional, Tuple

import torch
import torch.distributed as dist
from flash_attn.flash_attn_interface import _flash_attn_backward, _flash_attn_forward


def _allgather_kv(k, v, stride, group, stream) -> Tuple[List[torch.Tensor], List[torch.cuda.Event]]:
    world = dist.get_world_size(group)
    gathered, events = [], []
    stream.wait_stream(torch.cuda.current_stream())
    for h in range(0, k.shape[2], stride):
        with torch.cuda.stream(stream):
            kv = torch.stack([k[:, :, h:h + stride], v[:, :, h:h + stride]])
            gkv = torch.empty((world, *kv.shape), dtype=kv.dtype, device=kv.device)
            dist.all_gather_into_tensor(gkv, kv, group=group)
            gkv = gkv.permute(1, 2, 0, 3, 4, 5).flatten(2, 3).contiguous()
            event = torch.cuda.Event()
            event.record(stream)
        gkv.record_stream(torch.cuda.current_stream())
        gathered.append(gkv)
        events.append(event)
    return gathered, events


class ContextParallelFlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, softmax_scale, heads_stride, group, stream):
        gathered, events = _allgather_kv(k, v, heads_stride, group, stream)
        outs, lses = [], []
        for i, h in enumerate(range(0, q.shape[2], heads_stride)):
            torch.cuda.current_stream().wait_event(events[i])
            out, lse, _, _ = _flash_attn_forward(
                q[:, :, h:h + heads_stride].contiguous(), gathered[i][0], gathered[i][1],
                0.0, softmax_scale, False, -1, -1, 0.0, None, False)
            outs.append(out)
            lses.append(lse)
        ctx.save_for_backward(q, k, v, *outs, *lses)
        ctx.softmax_scale = softmax_scale
        ctx.heads_stride = heads_stride
        ctx.group = group
        ctx.stream = stream
        return torch.cat(outs, dim=2)

    @staticmethod
    def backward(ctx, dout):
        q, k, v, *rest = ctx.saved_tensors
        n = len(rest) // 2
        outs, lses = rest[:n], rest[n:]
        stride, group, stream = ctx.heads_stride, ctx.group, ctx.stream
        current = torch.cuda.current_stream()
        gathered, gather_events = _allgather_kv(k, v, stride, group, stream)

        dq = torch.empty_like(q)
        dkvs, done = [], []
        for i, h in enumerate(range(0, q.shape[2], stride)):
            current.wait_event(gather_events[i])
            qi = q[:, :, h:h + stride].contiguous()
            dqi = torch.empty_like(qi)
            dgkv = torch.empty_like(gathered[i])
            _flash_attn_backward(
                dout[:, :, h:h + stride].contiguous(), qi, gathered[i][0], gathered[i][1],
                outs[i], lses[i], dqi, dgkv[0], dgkv[1],
                0.0, ctx.softmax_scale, False, -1, -1, 0.0, None, False)
            dq[:, :, h:h + stride].copy_(dqi)

            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                dkv = torch.empty((2, *k[:, :, h:h + stride].shape), dtype=k.dtype, device=k.device)
                for j in range(2):
                    shard = dgkv[j].unflatten(1, (dist.get_world_size(group), -1)).transpose(0, 1)
                    dist.reduce_scatter_tensor(dkv[j], shard.contiguous(), group=group)
                event = torch.cuda.Event()
                event.record(stream)
            dgkv.record_stream(stream)
            dkv.record_stream(current)
            dkvs.append(dkv)
            done.append(event)

        dks, dvs = [], []
        for dkv, event in zip(dkvs, done):
            current.wait_event(event)
            dks.append(dkv[0].clone())
            dvs.append(dkv[1].clone())
        return dq, torch.cat(dks, dim=2), torch.cat(dvs, dim=2), None, None, None, None
