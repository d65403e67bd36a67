"""The page at / in a headless browser: what a person can see, reach and break."""

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from heddle import Server
from heddle.app.server_config import ServerConfig
from heddle.core.errors import Cancelled
from heddle.runtime.events import NodeStarted, RequestFailed, TokenDelta
from heddle.runtime.handle import Handle
from heddle.server.http import create_app
from heddle.server.keys.api_key import ApiKey, KeyScope, digest_of
from heddle.server.keys.key_ring import KeyRing
from heddle.workflow.ready_made import ready_made
from tests.helpers.extractor_weights import needs_weights
from tests.helpers.served_page import (
    MISSING,
    Visit,
    browser,
    has_browser,
    served,
    violations,
    visit,
)
from tests.unit.corpus.parsing.pdfs import pdf

pytestmark = pytest.mark.skipif(not has_browser(), reason=MISSING)

VIEWS = ("ask", "timeline", "workflow", "live", "documents")
QUESTION = "Who is the keeper of the lighthouse on Rock 3?"
KEEPER = "Clara"
WORKFLOWS = {name: ready_made(name).compile() for name in ("quote", "oneshot", "irg")}
HOSTILE = '<img src=x onerror="hurt=1"><script>hurt=1</script>\u202e&lt;'
NARROW = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def url(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    own = tmp_path_factory.mktemp("page") / "corpus"  # its documents are changed here
    shutil.copytree(corpus, own)
    with Server(index=own, engine_host="inline") as server:
        server.upsert(
            "emoji", "🗼🗼🗼 The beacon of Vik was lit by Solveig in 1911.", title=HOSTILE
        )
        with served(create_app(server, WORKFLOWS, takes_changes=True)) as address:
            yield address


@contextmanager
def clean_visit(chromium: Any, url: str, **how: Any) -> Iterator[Visit]:
    """Visit, and see at the end that nothing went elsewhere or wrong."""
    with visit(chromium, url, **how) as found:
        yield found
        assert found.foreign() == []
        assert found.problems == []
        assert found.page.evaluate("typeof hurt") == "undefined"


def ask(found: Visit, question: str = QUESTION, workflow: str = "quote") -> None:
    found.open("ask")
    found.page.locator("option[value=quote]").first.wait_for(state="attached")
    found.page.get_by_label("Workflow").first.select_option(workflow)
    found.page.get_by_label("Question").fill(question)
    found.page.get_by_role("button", name="Ask").click()
    found.page.get_by_text("Answered in").wait_for()


@needs_weights
def test_a_question_by_keyboard_alone(chromium: Any, url: str):
    with clean_visit(chromium, url) as found:
        page = found.page
        found.open("ask")
        focused = []
        for _ in range(12):
            page.keyboard.press("Tab")
            focused.append(page.evaluate("document.activeElement.textContent"))
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", f"the focus on {focused[-1]!r} can't be seen"
            if page.evaluate("document.activeElement.tagName") == "TEXTAREA":
                break
        assert focused[:3] == ["Skip to the content", "Ask", "Timeline"]
        page.keyboard.type(QUESTION)
        page.keyboard.press("Enter")
        live = page.locator("[aria-live=polite]")
        live.get_by_text(KEEPER, exact=True).wait_for()
        assert page.locator(".passages mark").first.inner_text() == KEEPER
        assert page.locator("figure mark").first.inner_text() == KEEPER
        assert "lights the lamp" in page.locator("blockquote").first.inner_text()
        receipt = page.locator(".receipt").inner_text()
        assert "from question to answer" in receipt
        assert "Ran degraded" in receipt


@needs_weights
def test_the_receipt_names_an_index_that_is_not_heddles_own(chromium: Any, url: str):
    def searched_elsewhere(route: Any) -> None:
        reply = route.fetch()
        named = re.sub(r'"searched_by": ?\[\]', '"searched_by": ["hnsw of pgvector"]', reply.text())
        route.fulfill(response=reply, body=named)

    with clean_visit(chromium, url) as found:
        ask(found)
        assert "Searched by" not in found.page.locator(".receipt").inner_text()
        found.page.route("**/v1/ask", searched_elsewhere)
        ask(found)
        found.page.locator(".receipt").get_by_text("hnsw of pgvector").wait_for()


@needs_weights
def test_a_quote_behind_wide_characters_and_under_a_hostile_title(chromium: Any, url: str):
    with clean_visit(chromium, url) as found:
        ask(found, "Who lit the beacon of Vik?")
        assert found.page.locator(".passages mark").first.inner_text() == "Solveig"
        assert found.page.get_by_text(HOSTILE, exact=True).count() >= 1
        assert found.page.locator("img").count() == 0


@needs_weights
def test_what_is_not_there_has_its_nearest_places(chromium: Any, url: str):
    with clean_visit(chromium, url) as found:
        ask(found, "What does a kilogram of saffron cost in Lisbon?")
        assert "Not found" in found.page.locator(".words").inner_text()
        found.page.get_by_role("heading", name="Not found; the nearest places").wait_for()
        assert found.page.locator("figure blockquote").count() >= 1


@needs_weights
def test_the_timeline_and_the_graph_of_a_request(chromium: Any, url: str):
    with clean_visit(chromium, url) as found:
        ask(found)
        page = found.page
        page.get_by_role("link", name="Its timeline").click()
        page.get_by_role("heading", name="Timeline of the last request").wait_for()
        assert page.evaluate("document.activeElement.id") == "timeline-title"
        lanes = page.locator(".lane-name").all_inner_texts()
        stages = page.get_by_role("table", name="Stages").locator("tbody tr")
        assert {row.locator("td").first.inner_text() for row in stages.all()} == set(lanes)
        names = set(stages.locator("th").all_inner_texts())
        assert len(names) >= 3
        assert page.locator(".chart .bar.path").count() >= 2
        widths = page.locator(".chart .bar").evaluate_all(
            "bars => bars.map(bar => bar.getBoundingClientRect().width)"
        )
        chart = page.locator(".chart").bounding_box()
        assert chart is not None
        assert 0 < max(widths) <= chart["width"]
        page.get_by_role("link", name="Workflow", exact=True).click()
        page.get_by_role("table", name="What each pass did").wait_for()
        assert page.get_by_label("Workflow to draw").input_value() == "quote"
        primitives = page.get_by_role("table", name="Primitives").locator("tbody th")
        assert primitives.count() == page.locator("svg .box").count()
        assert names <= set(primitives.all_inner_texts())
        assert ", " in page.locator("svg .kind").first.text_content(), "with how long it ran"
        page.get_by_label("Workflow to draw").select_option("irg")
        page.locator("option", has_text="where the edge after").first.wait_for(state="attached")
        assert page.get_by_label("Part of it").locator("option").count() > 1


@needs_weights
def test_an_answer_brings_its_own_graph_while_another_is_looked_at(chromium: Any, url: str):
    with clean_visit(chromium, url) as found:
        page, held = found.page, []
        found.open("ask")
        page.locator("option[value=quote]").first.wait_for(state="attached")
        page.route("**/v1/ask", lambda route: held.append(route))
        page.get_by_label("Workflow").first.select_option("quote")
        page.get_by_label("Question").fill(QUESTION)
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Workflow", exact=True).click()
        page.get_by_label("Workflow to draw").select_option("irg")
        page.locator("option", has_text="where the edge after").first.wait_for(state="attached")
        held[0].continue_()
        page.get_by_role("table", name="Primitives").get_by_text("quote").first.wait_for()
        assert page.get_by_label("Workflow to draw").input_value() == "quote"
        assert page.locator("option", has_text="where the edge after").count() == 0


@needs_weights
def test_the_graph_is_of_the_default_workflow_where_none_is_chosen(chromium: Any, corpus: Path):
    others_first = {name: WORKFLOWS[name] for name in ("irg", "quote")}
    with (
        Server(index=corpus, engine_host="inline") as server,
        served(create_app(server, others_first)) as url,
        clean_visit(chromium, url) as found,
    ):
        ask(found, workflow="")
        page = found.page
        page.get_by_role("link", name="Its workflow's graph").click()
        page.get_by_role("table", name="What each pass did").wait_for()
        assert page.get_by_label("Workflow to draw").input_value() == "quote"
        assert ", " in page.locator("svg .kind").first.text_content(), "with how long it ran"


def test_documents_are_put_in_found_and_deleted(chromium: Any, url: str):
    with clean_visit(chromium, url) as found:
        page = found.page
        found.open("documents")
        page.get_by_role("table", name="Documents").wait_for()
        # A form's file name has no slash and no control characters; a browser escapes its quotes.
        name = HOSTILE.replace("/", "").replace("\u202e", "").replace('"', "'") + ".md"
        good = {
            "name": name,
            "mimeType": "text/markdown",
            "buffer": b"# Mill\nThe mill grinds rye.",
        }
        paper = {
            "name": "ferry.pdf",
            "mimeType": "application/pdf",
            "buffer": pdf("The ferry to Holm leaves at noon.", "Its pilot is Torvald."),
        }
        rows = {
            "name": "birds.jsonl",
            "mimeType": "application/jsonl",
            "buffer": b'{"id": "tern", "text": "A tern dives."}\n{"id": "gull", "text": "A gull."}',
        }
        other = {"name": "run.exe", "mimeType": "application/octet-stream", "buffer": b"MZ"}
        page.get_by_label("Put files in").set_input_files([good, paper, rows, other])
        page.get_by_text("3 files in, 1 refused.").wait_for()
        outcomes = page.locator(".outcomes li").all_inner_texts()
        assert outcomes[0] == f"{name}: added"
        assert outcomes[1:3] == ["ferry.pdf: added", "birds.jsonl: 2 documents: 2 added"]
        assert "is of no type that is read" in outcomes[3]
        assert ["status of 400" in one for one in found.problems] == [True]
        found.problems.clear()  # a browser notes each reply that refuses
        page.get_by_label("Search in the texts").fill("Who is the pilot of the ferry?")
        page.get_by_role("button", name="Search").click()
        page.locator(".passages .text", has_text="Torvald").wait_for()
        page.get_by_label("Search in the texts").fill("What does the mill grind?")
        page.get_by_role("button", name="Search").click()
        page.locator(".passages .text", has_text="The mill grinds rye.").wait_for()
        page.get_by_label("Id or title holds").fill("onerror")
        page.get_by_role("button", name="List").click()
        page.get_by_text("2 documents shown.").wait_for()
        listed = page.get_by_role("table", name="Documents")
        listed.get_by_text(name, exact=True).wait_for()  # its id; its title is its heading
        page.get_by_role("button", name="Delete Mill").click()
        page.get_by_role("dialog").wait_for()
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="detached")
        page.get_by_role("button", name="Delete Mill").click()
        page.get_by_role("button", name="Delete it").click()
        page.get_by_text("Deleted.").wait_for()
        assert page.get_by_role("button", name="Delete Mill").count() == 0


def test_lanes_are_polled_while_they_are_looked_at(chromium: Any, url: str):
    with clean_visit(chromium, url) as found:
        page = found.page
        page.clock.install()
        found.open("live")
        page.get_by_role("table", name="Engines").wait_for()
        for _ in range(2):
            with page.expect_response("**/v1/live"):
                page.clock.run_for(3000)
        page.get_by_role("link", name="Ask", exact=True).click()
        page.get_by_label("Question").wait_for()
        before = found.paths().count("/v1/live")
        assert before >= 3
        page.clock.run_for(60_000)
        assert page.evaluate("fetch('/health').then(reply => reply.ok)")
        assert found.paths().count("/v1/live") == before


@needs_weights
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_a_person_out(chromium: Any, url: str, scheme: str):
    with clean_visit(chromium, url, color_scheme=scheme) as found:
        ask(found)
        wrong = {}
        for view in VIEWS:
            found.page.locator(f"nav a[href='#{view}']").click()
            found.page.locator(f"#view-{view} h1").wait_for()
            found.page.wait_for_load_state("networkidle")
            wrong[view] = violations(found.page)
        assert wrong == {view: [] for view in VIEWS}
        paper = found.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") is (scheme == "light")


@needs_weights
def test_a_narrow_screen_scrolls_one_way(chromium: Any, url: str):
    with clean_visit(chromium, url, viewport=NARROW, reduced_motion="reduce") as found:
        ask(found)
        for view in VIEWS:
            found.page.locator(f"nav a[href='#{view}']").click()
            found.page.locator(f"#view-{view} h1").wait_for()
            found.page.wait_for_load_state("networkidle")
            assert found.page.evaluate("document.documentElement.scrollWidth") <= 360, view
        moving = "getComputedStyle(document.querySelector('.coming'), '::after').animationName"
        assert found.page.evaluate(moving) == "none"


def test_violations_would_be_seen(chromium: Any, url: str):
    with visit(chromium, url) as found:
        found.open("ask")
        found.page.evaluate("document.querySelector('main label').remove()")
        assert any(line.startswith("label:") for line in violations(found.page))


class Endless:
    """Shows a token of each request, and never answers."""

    config = ServerConfig(generator="reader")

    def __init__(self) -> None:
        self.was_cancelled = threading.Event()

    def submit(self, *_: object, **how: object) -> Handle:
        handle = Handle(self.cancel)
        handle.push(NodeStarted("answer", 0))
        handle.push(TokenDelta("answer", "So far "))
        handle.push(TokenDelta("answer", "<b>this</b>"))
        self._handle = handle
        return handle

    def cancel(self) -> None:
        if not self._handle.is_done:
            self._handle.push(RequestFailed(Cancelled("cancelled by the caller")))
        self.was_cancelled.set()


def test_an_answer_is_shown_as_it_comes_and_can_be_stopped(chromium: Any):
    server: Any = Endless()
    with served(create_app(server, WORKFLOWS)) as url, clean_visit(chromium, url) as found:
        page = found.page
        found.open("ask")
        page.get_by_label("Question").fill("Why?")
        page.keyboard.press("Enter")
        page.get_by_text("So far <b>this</b>").wait_for()
        page.get_by_role("button", name="Stop").click()
        page.get_by_text("Stopped.").wait_for()
        assert server.was_cancelled.wait(30)


def test_a_key_is_asked_for_and_kept_in_this_tab_alone(chromium: Any):
    secret = "heddle-" + "k" * 43
    ring = KeyRing([ApiKey("page", digest_of(secret), "", frozenset({KeyScope.ASK}))])
    server: Any = SimpleNamespace(config=SimpleNamespace(default_workflow="oneshot"))
    app = create_app(server, WORKFLOWS, keys=ring)
    with served(app) as url, visit(chromium, url) as found:
        page = found.page
        found.open("ask")
        page.get_by_text("this server asks for a key").wait_for()
        page.get_by_text("API key", exact=True).first.click()
        page.get_by_label("API key").fill(secret)
        page.get_by_label("API key").press("Tab")
        page.locator("option[value=oneshot]").first.wait_for(state="attached")
        page.reload()
        page.locator("option[value=oneshot]").first.wait_for(state="attached")
        assert page.evaluate("localStorage.length + document.cookie.length") == 0
        assert not any(secret in address for address in found.requests)
        assert found.foreign() == []
