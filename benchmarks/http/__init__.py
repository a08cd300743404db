"""The HTTP rows of design/quality.md: the product's own programs, beside a bare view of one server.

A second web process of the product serves its addresses and the bare views (:mod:`.urls`), behind
the middleware that every view has; requests with a token to the API pass by the sessions of it
(:mod:`txnconsole.console.sessions`). Callers are threads of this process, one kept connection each.
"""
