"""The product's addresses, and two bare views: one answers, one decodes what it is sent."""

from __future__ import annotations

import json

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from txnconsole.urls import urlpatterns as product


@csrf_exempt
def bare(_request: HttpRequest) -> HttpResponse:
    """Answer a small object."""
    return JsonResponse({"done": True})


@csrf_exempt
def decoding(request: HttpRequest) -> HttpResponse:
    """Decode the body and say how many messages it has."""
    return JsonResponse({"messages": len(json.loads(request.body)["messages"])})


urlpatterns = [path("bare", bare), path("bare/decoding", decoding), *product]
