"""Any other address."""

from __future__ import annotations

from rest_framework.exceptions import NotFound
from rest_framework.request import Request

from txnconsole.api.endpoint import OneFormEndpoint


class Nowhere(OneFormEndpoint):
    """404 as a problem document, whatever the method and whoever asks. It is not 406: that the
    address does not exist matters more than the form of the answer."""

    authentication_classes = ()
    permission_classes = ()
    schema = None

    def initial(self, request: Request, *args: object, **path: object) -> None:
        super().initial(request, *args, **path)
        raise NotFound("There is nothing at this address.")
