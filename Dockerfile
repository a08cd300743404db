# One image for every service of docker-compose.yml: web, worker, beat, Spark.
FROM python:3.11-slim-bookworm AS build
WORKDIR /app
RUN python -m venv .venv && .venv/bin/pip install --no-cache-dir uv==0.13.9
COPY requirements.lock ./
# Compiled here: who runs below may write nowhere, and would compile all of it at each start.
RUN VIRTUAL_ENV=/app/.venv .venv/bin/uv pip sync --no-cache --compile-bytecode --require-hashes requirements.lock

FROM python:3.11-slim-bookworm
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --create-home txnconsole \
    && install -d -o txnconsole /data /offload \
    # A container that starts again gives its tmpfs the mode that it finds here.
    && install -d -m 1777 /metrics
WORKDIR /app
COPY --from=build /app/.venv .venv
COPY manage.py ./
COPY engine engine
COPY txnconsole txnconsole
COPY templates templates
COPY static static
RUN printf '#!/bin/sh\nexec /app/.venv/bin/python -m txnconsole.txnctl "$@"\n' \
    > .venv/bin/txnctl && chmod +x .venv/bin/txnctl
# Spark's executors run elsewhere than here, and import the jobs all the same.
ENV PATH=/app/.venv/bin:$PATH \
    PYTHONPATH=/app \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    TXNCONSOLE_DATA=/data \
    STATIC_ROOT=/app/collected
RUN python -m compileall -q engine txnconsole && python manage.py collectstatic --noinput --verbosity 0
USER txnconsole
ENTRYPOINT ["tini", "--"]
CMD ["granian", "--interface=asginl", "txnconsole.asgi:application", "--host=0.0.0.0", "--port=8000", \
     "--http=1", "--no-ws", "--workers-kill-timeout=3", "--no-access-log"]
