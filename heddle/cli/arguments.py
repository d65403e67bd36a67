"""Arguments that several commands take: named, explained and checked in one place."""

import argparse
import math
import re
import tempfile
from pathlib import Path
from typing import Any, Final

from heddle.app.models.model_source import DEFAULT_MODEL
from heddle.app.server_config import (
    CHUNK_KV_BYTES_DEFAULT,
    CHUNK_KV_ENCODINGS,
    LOST_SHARD,
    POOL_POLICIES,
)
from heddle.core.errors import ConfigError
from heddle.core.kv_reuse import FULL_ATTENTION, KV_REUSE_FORM, KvReuse, kv_reuse_of
from heddle.core.tasks import Optimizations
from heddle.engines.embedding.long_texts import LongTexts
from heddle.engines.llm.lanes.lane_role import ROLES, LaneRole, lane_roles
from heddle.engines.vector.graph.scheduler import TOPM
from heddle.engines.vector.ivf.early_stop.setting import EXACT, SEARCH_FORM, target_recall
from heddle.engines.vector.ivf.hot.setting import AUTO
from heddle.engines.vector.pool.build import PREFILL_SLO_S
from heddle.engines.vector.shards.port import LostShard
from heddle.kv.kv_encoding import KvEncoding

LONG_TEXTS: Final = tuple(kind.value for kind in LongTexts)
BYTES_IN: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def add_models(parser: argparse.ArgumentParser) -> None:
    """Declare which models a server runs and how: what `add_model` does, KV reuse, the search."""
    add_model(parser)
    _add_llm_lanes(parser)
    _add_kv_reuse(parser)
    add_chunk_kv(parser)
    parser.add_argument(
        "--embedder", metavar="DIR-or-name", help="what the corpus was indexed with, if named then"
    )
    add_long_texts(parser)
    add_heterogeneous(parser)
    _add_search(parser)


def _add_search(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("how the index is searched").add_argument
    add(
        "--search",
        type=_search,
        default=EXACT,
        metavar=SEARCH_FORM,
        help="how far searches go in the index that `heddle index --search` made: exact = through "
        "every list that they plan; speculative = likewise, while prompts are computed with what "
        "was found by then; target:0.95 = until so much of the exact hits is found on average, "
        "learnt from questions that are searched again exactly; default: %(default)s",
    )
    add(
        "--topm",
        type=int,
        metavar="N",
        help="candidates that a search of a graph keeps, 1 to 1024: recall against time; "
        f"default: {TOPM}",
    )
    add(
        "--hot-clusters",
        default=AUTO,
        metavar="auto|off|N%",
        help="share of the index that a GPU holds as well: the lists that are asked for most; "
        "default: auto, 20%% where there is a GPU",
    )
    add(
        "--pool",
        choices=POOL_POLICIES,
        metavar="|".join(POOL_POLICIES),
        help="a pool in front of the index, for searches before a prefill and while decoding: "
        "which of them go first; default: none, all run side by side",
    )
    add(
        "--pool-slo-ms",
        type=_milliseconds,
        metavar="MS",
        help="how long a search before a prefill may take in that pool; default: "
        f"{PREFILL_SLO_S * 1e3:g}",
    )
    add(
        "--shards",
        type=int,
        default=1,
        metavar="N",
        help="lanes that search a part of the index each; default: %(default)s",
    )
    add(
        "--lost-shard",
        choices=LOST_SHARD,
        default=LostShard.FAIL.value,
        metavar="|".join(LOST_SHARD),
        help="while one of these lanes is lost: degrade = the others answer, and the receipt says "
        "so; fail = a search waits for it, or fails; default: %(default)s",
    )


def add_long_texts(parser: argparse.ArgumentParser) -> None:
    """Declare `--long-texts`."""
    parser.add_argument(
        "--long-texts",
        choices=LONG_TEXTS,
        default=LongTexts.CUT.value,
        metavar="|".join(LONG_TEXTS),
        help="texts longer than the embedder takes: cut = to its length; window = read in windows "
        "of that length, whose mean counts; default: %(default)s",
    )


def add_heterogeneous(parser: argparse.ArgumentParser) -> None:
    """Declare `--heterogeneous`."""
    parser.add_argument(
        "--heterogeneous",
        choices=("on", "off"),
        default="on",
        help="whether the CPU embeds what an accelerator can't in time; off by itself where there "
        "is one kind of device; default: %(default)s",
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """Declare `--model`, the one that writes the answers, and the limits of its memory."""
    parser.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        metavar="DIR-or-hub-name",
        help=f"a directory with safetensors or owner/name; default: {DEFAULT_MODEL}",
    )
    parser.add_argument(
        "--context-tokens-max",
        type=int,
        metavar="N",
        help="most tokens of a prompt and its answer; default: the model's own limit",
    )
    parser.add_argument(
        "--kv-bytes",
        type=_byte_count,
        metavar="SIZE",
        help="memory for the KV cache, of each LLM lane, such as 512M or 2G; default: what is "
        "left, at most 1G",
    )


def _add_llm_lanes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--llm-lanes",
        type=_llm_lanes,
        default=LaneRole.BOTH.value,
        metavar="ROLE[,ROLE...]",
        help=f"a process with its own cores and weights for each role ({', '.join(ROLES)}): "
        "prefill,decode computes prompts on one and hands their KV to another, which writes the "
        "answers (prefill/decode disaggregation); default: %(default)s, one that does all",
    )


def _add_kv_reuse(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kv-reuse",
        type=kv_reuse,
        default=FULL_ATTENTION,
        metavar="POLICY[,RATIO][,OPTION...]",
        help="use the KV of retrieved chunks again, wherever they stand, which is approximate; the "
        f"ratio is the share of their tokens that is computed anew. {KV_REUSE_FORM}; default: full "
        f"(attention, no reuse), ratio {FULL_ATTENTION.ratio}",
    )


def kv_reuse(text: str) -> KvReuse:
    """Return what `--kv-reuse` says; argparse shows its own words for any other error."""
    try:
        return kv_reuse_of(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _llm_lanes(text: str) -> str:
    """Return what `--llm-lanes` says; argparse shows its own words for any other error."""
    try:
        lane_roles(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _search(text: str) -> str:
    """Return what `--search` says; argparse shows its own words for any other error."""
    try:
        target_recall(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def server_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return what `add_models` declares but the model, under the names that `Server` gives it."""
    reuse: KvReuse = options.kv_reuse
    is_approximate = reuse.is_approximate or target_recall(options.search) is not None
    mode = Optimizations.APPROX if is_approximate else Optimizations.EXACT
    own = {"embedder": options.embedder, "kv_reuse": reuse, "optimizations": mode}
    own |= {"long_texts": LongTexts(options.long_texts), "hot_clusters": options.hot_clusters}
    own["heterogeneous"] = options.heterogeneous == "on"
    own |= {"search": options.search, "topm": options.topm}
    slo_ms = options.pool_slo_ms
    own |= {"pool": options.pool, "pool_slo_s": None if slo_ms is None else slo_ms / 1e3}
    own |= {"shards": options.shards, "lost_shard": options.lost_shard}
    own["llm_lanes"] = options.llm_lanes
    return {**own, **chunk_kv_limits(options), **model_limits(options)}


def model_limits(options: argparse.Namespace) -> dict[str, Any]:
    """Return the limits that `add_model` declares, under the names that `Server` gives them."""
    return {"context_tokens_max": options.context_tokens_max, "kv_bytes": options.kv_bytes}


def add_chunk_kv(parser: argparse.ArgumentParser) -> None:
    """Declare how the KV of chunks is kept: `--kv-host`, `--kv-disk` and `--kv-encoding`."""
    parser.add_argument(
        "--kv-host",
        type=_byte_count,
        default=CHUNK_KV_BYTES_DEFAULT,
        metavar="SIZE",
        help="host memory for chunk KV, such as 512M or 4G; default: 256M",
    )
    parser.add_argument(
        "--kv-encoding",
        choices=CHUNK_KV_ENCODINGS,
        default=KvEncoding.BF16.value,
        help="how chunk KV is stored: int8 takes half of bf16, with an error that --receipt tells; "
        "default: %(default)s",
    )
    parser.add_argument(
        "--kv-disk",
        type=_byte_count,
        metavar="SIZE",
        help="what the corpus directory may hold of chunk KV, such as 512M or 20G; default: 1G, "
        "or what it holds already",
    )


def chunk_kv_limits(options: argparse.Namespace) -> dict[str, Any]:
    """Return what `add_chunk_kv` declares, under the names that `Server` gives it."""
    return {
        "chunk_kv_bytes": options.kv_host,
        "chunk_kv_encoding": options.kv_encoding,
        "chunk_kv_disk_bytes": options.kv_disk,
    }


def add_topk(parser: argparse.ArgumentParser) -> None:
    """Declare `--topk`."""
    parser.add_argument(
        "--topk", type=int, metavar="N", help="passages of each search; default: the workflow's"
    )


def add_scope(parser: argparse.ArgumentParser) -> None:
    """Declare which documents a question is answered from: `--where` and `--tenant`."""
    parser.add_argument(
        "--where",
        type=_key_and_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="only documents with this metadata; of several values of a key one is enough, of "
        "several keys each must fit",
    )
    parser.add_argument(
        "--tenant", default="", metavar="NAME", help="whose documents besides everybody's"
    )


def search_scope(options: argparse.Namespace) -> dict[str, Any]:
    """Return what `add_scope` declares, under the names that `submit` gives it."""
    where: dict[str, list[str]] = {}
    for key, value in options.where:
        where.setdefault(key, []).append(value)
    return {"where": where, "tenant": options.tenant}


def add_json(parser: argparse.ArgumentParser) -> None:
    """Declare `--json FILE`, refused before a long run rather than after it."""
    parser.add_argument("--json", type=_result_file, metavar="FILE", help="write the result there")


def _key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no filter; write KEY=VALUE")
    return key, value


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write milliseconds above 0")
    return value


def _byte_count(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)(?:i?B)?", text, re.IGNORECASE)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write 512M, 2G or plain bytes")
    return int(match[1]) * BYTES_IN[match[2].upper()]


def _result_file(text: str) -> Path:
    path = Path(text)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text!r} can't be written: {error.strerror}") from error
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder; name a file in it")
    return path
