"""The tools themselves: `search`, `ask` and `list_documents` over one corpus."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from heddle.app.server import Server
from heddle.core.passages import Passage
from heddle.core.search_scope import SearchScope, where_of
from heddle.corpus.place import CorpusPlace
from heddle.corpus.records import ListedDocument
from heddle.corpus.store import CorpusStore
from heddle.runtime.handle import Handle
from heddle.server.mcp.arguments import AskArguments, ListArguments, SearchArguments
from heddle.server.mcp.results import ToolResult, answer_result, documents_result, passages_result
from heddle.server.mcp.server_on_demand import ServersOnDemand
from heddle.workflow.workflow import Workflow

BY_WORDS: Final = "words"
BY_BOTH: Final = "both"


@dataclass(frozen=True, slots=True)
class CorpusTools:
    """What clients can do with a corpus: they read it, and change nothing.

    Args:
        place: where the corpus is.
        servers: search and answer.
        workflow: answers questions; None = this corpus is only searched.
        tenant: searches find this tenant's documents and those without a tenant.
    """

    place: CorpusPlace
    servers: ServersOnDemand
    workflow: Workflow | None
    tenant: str = ""

    async def search(self, asked: SearchArguments) -> ToolResult:
        """Find passages. By words alone it needs no model, and none is loaded.

        Raises:
            HeddleError: it failed.
        """
        if asked.how == BY_WORDS:
            return passages_result(await asyncio.to_thread(self._by_words, asked))
        async with self.servers.searching() as server:
            answer = await (await _admitted(partial(self._submit_search, server, asked)))
        return passages_result(answer.passages)

    async def ask(self, asked: AskArguments) -> ToolResult:
        """Answer a question.

        Raises:
            HeddleError: it failed.
        """
        async with self.servers.answering() as server:
            answer = await (await _admitted(partial(self._submit_question, server, asked)))
        return answer_result(answer)

    async def list_documents(self, asked: ListArguments) -> ToolResult:
        """List the documents that searches can find.

        Raises:
            HeddleError: the corpus can't be read.
        """
        documents = await asyncio.to_thread(self._listed, asked.contains.casefold())
        page = documents[asked.offset : asked.offset + asked.limit]
        return documents_result(page, asked.offset, len(documents))

    def _submit_search(self, server: Server, asked: SearchArguments) -> Handle:
        return server.submit_search(
            asked.query,
            topk=asked.topk,
            hybrid=asked.how == BY_BOTH,
            where=asked.where,
            tenant=self.tenant,
        )

    def _submit_question(self, server: Server, asked: AskArguments) -> Handle:
        assert self.workflow is not None, "a corpus that is only searched has no such tool"
        return server.submit(
            self.workflow, asked.question, topk=asked.topk, where=asked.where, tenant=self.tenant
        )

    def _by_words(self, asked: SearchArguments) -> tuple[Passage, ...]:
        scope = SearchScope(self.tenant, where_of(asked.where or {}))
        with CorpusStore.open(self.place) as store:
            found = store.by_words(asked.query, asked.topk, scope).chunk_ids
            return store.passages(found.tolist())

    def _listed(self, contains: str) -> list[ListedDocument]:
        with CorpusStore.open(self.place) as store:
            return [
                one
                for one in store.documents.listed()
                if one.tenant in ("", self.tenant)
                and any(contains in text.casefold() for text in (one.title, one.file, one.id))
            ]


async def _admitted(submit: Callable[[], Handle]) -> Handle:
    """Submit from a thread, as `submit` waits for the runtime's.

    Where the call is cancelled meanwhile, its request ends as soon as it is admitted.
    """
    admission = asyncio.ensure_future(asyncio.to_thread(submit))
    try:
        return await asyncio.shield(admission)
    except asyncio.CancelledError:
        admission.add_done_callback(_leave)
        raise


def _leave(admission: "asyncio.Future[Handle]") -> None:
    if not admission.cancelled() and admission.exception() is None:
        admission.result().cancel_soon()
