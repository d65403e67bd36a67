import torch
from extractor_training.base_encoder import base_directory, untrained_model
from extractor_training.batches import pack
from extractor_training.rows import Passage
from extractor_training.span_model import SpanModel
from extractor_training.windows import windows_of
from transformers import BertModel

from tests.helpers.small_extractor import small_model


def test_the_untrained_model_is_the_packaged_encoder(tokenizer):
    texts = ("It rains in Oslo.", "Nine years of work.")
    windows = [windows_of(tokenizer, "where?", Passage("p", "", text))[0] for text in texts]
    packed = pack(windows)
    model = untrained_model(seed=0)
    reference = BertModel.from_pretrained(base_directory(), add_pooling_layer=False).eval()
    with torch.no_grad():
        logits = model(packed).split(packed.lengths)
        for window, ours in zip(windows, logits, strict=True):
            hidden = reference(
                input_ids=torch.tensor([window.ids]),
                token_type_ids=torch.tensor([window.types]),
            ).last_hidden_state[0]
            torch.testing.assert_close(ours, model.head(hidden), atol=1e-4, rtol=1e-4)


def test_only_layers_and_head_are_trained():
    trained = {n for n, p in small_model().named_parameters() if p.requires_grad}
    assert trained
    assert all(name.startswith(("encoder.layer.", "head.")) for name in trained)


def test_a_sequence_is_read_alike_alone_and_among_others(tokenizer):
    passages = [Passage("a", "", "It rains."), Passage("b", "", "Nine years of work in Oslo.")]
    windows = [windows_of(tokenizer, "where?", one)[0] for one in passages]
    model: SpanModel = small_model()
    with torch.no_grad():
        together = model(pack(windows)).split([len(w.ids) for w in windows])
        for window, ours in zip(windows, together, strict=True):
            torch.testing.assert_close(ours, model(pack([window])), atol=1e-6, rtol=1e-5)
