"""What users read in help texts is plain: none of the house's riddles. (the style's plain words)"""

import re

import pytest

from heddle.app.setting import fields_of
from heddle.cli.config_options import CONFIGS
from heddle.cli.main import COMMANDS, command_parser
from heddle.server.ask_request import AskRequest
from heddle.server.document_request import DocumentRequest
from heddle.server.embedding_request import EmbeddingRequest
from tools.plain_words import phrases_in
from tools.reference.pages import PAGES, page_text

# Words of the house that say too little in a help text of one line.
ELLIPTICAL = re.compile(r"\b(somebody|so much|tell|of yours|beside those)\b", re.IGNORECASE)


def check(text: str) -> None:
    line = " ".join(text.split())
    assert not phrases_in(line), line
    found = ELLIPTICAL.search(line)
    assert found is None, f"{found.group()!r} in {line!r}"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command(name: str):
    parser = command_parser(name)
    for line in (*parser.format_help().splitlines(), *parser.format_common_help().splitlines()):
        check(line)
    check(parser.format_help())


@pytest.mark.parametrize("config", CONFIGS)
def test_the_help_of_settings(config: type):
    for field in fields_of(config).values():
        check(f"{field.setting.help}; {field.setting.details}; {field.words}")


@pytest.mark.parametrize("body", [AskRequest, EmbeddingRequest, DocumentRequest])
def test_the_descriptions_of_http_fields(body: type):
    for name, field in body.model_fields.items():
        assert field.description, f"{name} has no description"
        check(field.description)


@pytest.mark.parametrize("name", sorted(set(PAGES) - {"python.md"}))
def test_the_reference_pages(name: str):
    for line in page_text(name).splitlines():
        check(line)
