"""Looking at a transaction of another console, by the document that it exported."""

from __future__ import annotations

from django.http import HttpResponse
from django.views.decorators.http import require_http_methods

from engine.model.errors import InvalidRequest
from txnconsole.access.roles import Permission
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.phases import steps
from txnconsole.console.transaction_document import MAX_BYTES, TOO_LARGE, read_document
from txnconsole.documents.structs import TransactionDocument

#: How many rows each table shows; a page has 1,000 elements at most.
ROWS = 20
_MIB = 2**20


@require_http_methods(["GET", "HEAD", "POST"])
@page(Permission.SELF_READ)
def read_file(request: ConsoleRequest) -> HttpResponse:
    """The form; on POST, what the file says. Nothing is kept, and no database is asked."""
    if request.method != "POST":
        return _shown(request, None)
    file = request.FILES.get("document")
    if file is None or isinstance(file, list):
        size = f"The file has more than {MAX_BYTES // _MIB} MiB."
        return _shown(request, None, size if TOO_LARGE in request.META else "Choose a file.")
    try:
        return _shown(request, read_document(file.read()))
    except InvalidRequest as error:
        return _shown(request, None, error.message)


def _shown(
    request: ConsoleRequest, document: TransactionDocument | None, error: str = ""
) -> HttpResponse:
    context: dict[str, object] = {
        "document": document,
        "error": error,
        "mib": MAX_BYTES // _MIB,
        "sees_all": request.principal.may(Permission.TRANSACTION_READ_ANY),
    }
    if document is not None:
        one = document.transaction
        context |= {
            "txn": one,
            "rows": f":{ROWS}",
            "steps": steps(one, document.as_of),
            "more": {
                name: max(0, len(getattr(document, name) or ()) - ROWS)
                for name in ("partitions", "subscriptions", "log", "audit", "acknowledgements")
            },
        }
    return show(request, "console/transaction_document.html", context, status=422 if error else 200)
