"""The state of engines beside their load: the names in a frame's `gauges`."""

from typing import Final

KV_PAGES_HELD: Final = "kv_pages_held"  # by a sequence
KV_PAGES_CACHED: Final = "kv_pages_cached"  # not held; kept, as their content may be reused
KV_PAGES_FREE: Final = "kv_pages_free"
CHUNK_KV_ENTRIES: Final = "chunk_kv_entries"  # stored KV of chunks, in whichever tier
CHUNK_KV_HOST_BYTES: Final = "chunk_kv_host_bytes"
CHUNK_KV_DISK_BYTES: Final = "chunk_kv_disk_bytes"
CHUNK_KV_HOST_EVICTED: Final = "chunk_kv_host_evicted"  # this and the next since it was opened
CHUNK_KV_DISK_EVICTED: Final = "chunk_kv_disk_evicted"
CHUNK_KV_LOADED: Final = "chunk_kv_loaded"  # entries from disk
CHUNK_KV_NOT_LOADED: Final = "chunk_kv_not_loaded"  # for a file that is gone, torn or foreign
CHUNK_KV_UNWRITTEN: Final = "chunk_kv_unwritten"  # entries that the disk didn't take
CHUNK_KV_TOKENS: Final = "chunk_kv_tokens"  # of all entries
CHUNK_KV_DISK_ONLY: Final = "chunk_kv_disk_only"  # entries that host memory doesn't hold
CHUNK_KV_DISK_ONLY_S: Final = "chunk_kv_disk_only_s"  # to read these, one after the other
CHUNK_KV_AHEAD_USED: Final = "chunk_kv_ahead_used"  # entries read before the prompt that used them
CHUNK_KV_AHEAD_WASTED: Final = "chunk_kv_ahead_wasted"  # that left host memory before any use
CHUNK_KV_FUSED: Final = "chunk_kv_fused"  # prompts that reused it, since the engine started
CHUNK_KV_WHOLE: Final = "chunk_kv_whole"  # prompts computed whole, as reuse wasn't to pay
INDEX_REVISION: Final = "index_revision"  # of the corpus, that the index covers
INDEX_VECTORS: Final = "index_vectors"
POOL_RUNNING: Final = "pool_running"  # searches in a slot of a vector pool
POOL_FREE: Final = "pool_free"  # its slots without a search
POOL_WAITING: Final = "pool_waiting"  # searches that wait for one, parked ones included
