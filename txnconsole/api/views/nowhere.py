"""Any other address."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import NotFound
from rest_framework.request import Request

from txnconsole.api.endpoint import Endpoint


class Nowhere(Endpoint):
    """404 as a problem document, whatever the method and whoever asks."""

    authentication_classes = ()
    permission_classes = ()
    schema = None

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        # Not 406: that the address does not exist matters more than the form of the answer.
        return super().perform_content_negotiation(request, force=True)

    def initial(self, request: Request, *args: object, **path: object) -> None:
        super().initial(request, *args, **path)
        raise NotFound("There is nothing at this address.")
