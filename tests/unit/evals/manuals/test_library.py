import pytest

from heddle.evals.manuals.library import MODULES, PACKAGE_MODULES, READMES, manual_pages

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pages():
    return manual_pages()


def test_every_page_has_a_name_of_its_own_and_text(pages):
    assert len({page.name for page in pages}) == len(pages)
    assert [page.name for page in pages if not page.text.strip()] == []
    assert not any("/" in page.name for page in pages)


def test_the_pages_are_python_its_tools_and_packages(pages):
    names = {page.name for page in pages}
    assert {"language-try.txt", "json.md", "command-http.server.txt", "readme-psutil.md"} <= names


def test_no_page_is_of_the_library_that_the_extractor_was_trained_on(pages):
    named = {name.partition(".")[0].replace("-", "_") for name in (*PACKAGE_MODULES, *READMES)}
    assert named & {"sklearn", "scikit_learn"} == set()
    assert [page.name for page in pages if "sklearn" in page.text] == []


def test_nothing_depends_on_the_run(pages):
    assert [page.name for page in pages if " at 0x7f" in page.text] == []
    assert manual_pages() == pages


def test_a_module_is_named_once():
    assert len({*MODULES, *PACKAGE_MODULES}) == len(MODULES) + len(PACKAGE_MODULES)
