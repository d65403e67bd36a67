"""Every mutation can still be applied: the text that it changes and the tests beside it are there.

Whether a test notices takes minutes and is tried by `make mutants`.
"""

import re

import pytest

from tools.mutants import COPIED, ROOT, Edit, MutantError, mutations

IMPORTED = re.compile(r"^(?:from|import) (\w+)", re.M)


def test_a_copy_of_the_tree_has_all_that_tests_import():
    texts = (file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("*.py"))
    imported = {name for text in texts for name in IMPORTED.findall(text)}
    own = {path.name for path in ROOT.iterdir() if path.is_dir()}
    assert imported & own <= set(COPIED)


def test_every_name_is_given_once():
    names = [mutation.name for mutation in mutations()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("mutation", mutations(), ids=lambda mutation: mutation.name)
def test_a_mutation_changes_text_that_stands_once_in_its_file(mutation):
    texts = {edit.file: (ROOT / edit.file).read_text(encoding="utf-8") for edit in mutation.edits}
    for edit in mutation.edits:
        changed = edit.applied(texts[edit.file])
        assert changed != texts[edit.file]
        texts[edit.file] = changed
    python = {file: text for file, text in texts.items() if file.endswith(".py")}
    for file, text in python.items():
        compile(text, file, "exec")


@pytest.mark.parametrize("mutation", mutations(), ids=lambda mutation: mutation.name)
def test_the_tests_that_must_see_a_mutation_are_there(mutation):
    for test in mutation.tests:
        file, _, name = test.partition("::")
        assert f"def {name}" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["", "a page, a page"])
def test_text_that_stands_never_or_twice_is_refused(text):
    with pytest.raises(MutantError, match="not once"):
        Edit("kept.py", old="a page", new="no page").applied(text)
