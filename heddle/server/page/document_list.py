"""GET /v1/documents: the documents that a tenant's searches find, page by page."""

import base64
import binascii
import json
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from starlette.datastructures import QueryParams

from heddle.core.errors import InputError
from heddle.core.texts.text_check import check_unicode
from heddle.corpus.records import ListedDocument
from heddle.corpus.store import CorpusStore
from heddle.server.limits import TENANT_CHARS_MAX, whole_number
from heddle.server.wire import Json

LIMIT: Final = 50
LIMIT_MAX: Final = 200
CONTAINS_CHARS_MAX: Final = 200
PARAMETERS: Final[list[dict[str, Any]]] = [
    {
        "name": "tenant",
        "in": "query",
        "schema": {"type": "string", "maxLength": TENANT_CHARS_MAX},
        "description": "list this tenant's documents and those without a tenant",
    },
    {
        "name": "limit",
        "in": "query",
        "schema": {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT},
        "description": "documents of a page, at most",
    },
    {
        "name": "contains",
        "in": "query",
        "schema": {"type": "string", "maxLength": CONTAINS_CHARS_MAX},
        "description": "text that the id or the title holds, in capitals or not",
    },
    {
        "name": "after",
        "in": "query",
        "schema": {"type": "string"},
        "description": "`next` of the page before; none = the first page",
    },
]
NAMES: Final = frozenset(parameter["name"] for parameter in PARAMETERS)


@dataclass(frozen=True, slots=True)
class DocumentQuery:
    """Which documents are asked for, as the query of a URL says.

    Args:
        tenant: as the URL names it; "" = none.
        limit: documents of a page.
        contains: text that the id or the title holds; "" = any.
        after: id and tenant of the last document of the page before; None = the first page.
    """

    tenant: str
    limit: int
    contains: str
    after: tuple[str, str] | None

    @classmethod
    def of(cls, query: QueryParams) -> Self:
        """Read a query.

        Raises:
            InputError: a parameter is unknown, comes twice or can't be used.
        """
        names = [name for name, _ in query.multi_items()]
        if wrong := sorted(set(names) - NAMES):
            known = ", ".join(sorted(NAMES))
            raise InputError(f"{wrong[0]}: unknown parameter; there are {known}")
        if len(set(names)) < len(names):
            raise InputError("each parameter may come once")
        for name, chars_max in (("tenant", TENANT_CHARS_MAX), ("contains", CONTAINS_CHARS_MAX)):
            if len(query.get(name, "")) > chars_max:
                raise InputError(f"{name}: at most {chars_max} characters")
        after = query.get("after")
        return cls(
            query.get("tenant", ""),
            _limit(query.get("limit", str(LIMIT))),
            query.get("contains", ""),
            None if after is None else _place(after),
        )

    def page(self, store: CorpusStore, tenant: str) -> Json:
        """Return the page that is asked for.

        Args:
            store: the corpus.
            tenant: whose documents are listed beside those of no tenant.
        """
        found = store.documents.listed_after(self.after, self.limit + 1, tenant, self.contains)
        shown = found[: self.limit]
        has_more = len(found) > len(shown)
        return {
            "documents": [asdict(document) for document in shown],
            "next": _cursor(shown[-1]) if has_more else None,
        }


def _limit(text: str) -> int:
    limit = whole_number(text, LIMIT_MAX)
    if limit is None:
        raise InputError(f"limit: a number from 1 to {LIMIT_MAX}, got {text[:40]!r}")
    return limit


def _cursor(document: ListedDocument) -> str:
    place = json.dumps([document.id, document.tenant]).encode()
    return base64.urlsafe_b64encode(place).decode()


def _place(cursor: str) -> tuple[str, str]:
    try:
        place = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except (binascii.Error, ValueError, RecursionError):
        place = None
    match place:
        case [str(document_id), str(tenant)]:
            check_unicode(document_id + tenant, "after")
            return document_id, tenant
    raise InputError("after: take the field `next` of the page before, as it is")
