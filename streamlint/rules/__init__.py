"""The rules, in the order in which they explain a pair: cause before symptom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.rules import (
    sl101_unordered_read,
    sl102_unordered_write,
    sl103_wait_before_record,
    sl105_wrong_device_synchronize,
    sl201_host_read_before_sync,
    sl202_host_write_during_copy,
    sl203_host_access_to_device_memory,
    sl204_device_wait_used_as_host_sync,
    sl301_cuda_call_in_host_callback,
    sl302_blocking_host_callback,
    sl303_callback_not_kept_alive,
    sl304_deprecated_stream_add_callback,
    sl401_missing_record_stream,
    sl402_freed_while_in_use,
    sl403_used_before_allocated,
    sl404_used_after_destroy,
    sl405_record_stream_on_owner,
    sl501_sync_in_capture,
    sl502_unjoined_capture,
    sl503_capture_waits_outside,
    sl504_graph_buffer_race,
    sl602_collective_before_wait,
    sl701_elapsed_before_sync,
    sl901_pageable_async_copy,
    sl902_implicit_sync_in_loop,
    sl903_allocation_serializes,
    sl904_default_stream_serializes,
    sl905_redundant_sync,
)

if TYPE_CHECKING:
    from streamlint.rules.base import Rule

RULES: tuple[Rule, ...] = (
    sl101_unordered_read.RULE,
    sl102_unordered_write.RULE,
    sl103_wait_before_record.RULE,
    sl105_wrong_device_synchronize.RULE,
    sl201_host_read_before_sync.RULE,
    sl202_host_write_during_copy.RULE,
    sl203_host_access_to_device_memory.RULE,
    sl204_device_wait_used_as_host_sync.RULE,
    sl301_cuda_call_in_host_callback.RULE,
    sl302_blocking_host_callback.RULE,
    sl303_callback_not_kept_alive.RULE,
    sl304_deprecated_stream_add_callback.RULE,
    sl401_missing_record_stream.RULE,
    sl402_freed_while_in_use.RULE,
    sl403_used_before_allocated.RULE,
    sl404_used_after_destroy.RULE,
    sl405_record_stream_on_owner.RULE,
    sl501_sync_in_capture.RULE,
    sl502_unjoined_capture.RULE,
    sl503_capture_waits_outside.RULE,
    sl504_graph_buffer_race.RULE,
    sl602_collective_before_wait.RULE,
    sl701_elapsed_before_sync.RULE,
    sl901_pageable_async_copy.RULE,
    sl902_implicit_sync_in_loop.RULE,
    sl903_allocation_serializes.RULE,
    sl904_default_stream_serializes.RULE,
    sl905_redundant_sync.RULE,
)
