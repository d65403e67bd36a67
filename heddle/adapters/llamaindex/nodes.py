"""Heddle's passages as LlamaIndex's nodes."""

from dataclasses import asdict

from llama_index.core.schema import NodeWithScore, TextNode

from heddle.core.passages import Passage


def node_of(passage: Passage) -> NodeWithScore:
    """Return a passage as a node.

    Its id is the chunk's, so that a fusion sees the same chunk of two searches as one. `score` is
    what a model that has read it gives it, or the cosine of query and passage, at least 0. A prompt
    shows its title; where else it stands is for the caller.
    """
    score = passage.score
    if score is None:
        score = max(0.0, 1.0 - passage.distance / 2.0)
    place = {
        "document_id": passage.document_id,
        "chunk_id": passage.chunk_id,
        **asdict(passage.place),
        "heading": list(passage.place.heading),
    }
    node = TextNode(
        id_=str(passage.chunk_id),
        text=passage.text,
        metadata={"title": passage.title, **place},
        excluded_llm_metadata_keys=list(place),
        excluded_embed_metadata_keys=list(place),
    )
    return NodeWithScore(node=node, score=score)
