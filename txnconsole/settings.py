"""Django's settings, one file for every environment (docs/operations.md, Settings)."""

from __future__ import annotations

import os
import ssl
import sys
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from django.core.management.utils import get_random_secret_key
from kombu import Queue

from txnconsole import logs, tracing
from txnconsole.environment import (
    Environment,
    Process,
    data_directory,
    django_database,
    left_by_runner,
)
from txnconsole.workers.schedule import SCHEDULE

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = data_directory()
env = Environment(os.environ, left_by_runner(DATA_DIR))

# --- Servers -------------------------------------------------------------------------------------
# Without any setting they are the embedded ones, at their place in the data directory.
_embedded = f"host={DATA_DIR}/run user=postgres"
DATABASE_URL = env.text("DATABASE_URL", f"{_embedded} dbname=coordinator")
BROKER_DATABASE_URLS = env.databases(
    "BROKER_DATABASE_URLS", f"{_embedded} dbname=broker_1,{_embedded} dbname=broker_2"
)
REDIS_URL = env.queue("REDIS_URL", f"unix://{DATA_DIR}/run/valkey.sock")
COORDINATORS = env.integer("TXNCONSOLE_COORDINATORS", 4, low=1, high=65_536)
MAX_OPEN_PER_OWNER = env.integer("TXNCONSOLE_MAX_OPEN_PER_OWNER", 10_000, low=0, high=10**9)
ARCHIVE_AFTER_MS = env.integer("TXNCONSOLE_ARCHIVE_AFTER_MS", 604_800_000, low=0, high=10**13)
#: Where segments are offloaded to, the same for every machine; empty: nowhere.
OFFLOAD_DIR = env.text("TXNCONSOLE_OFFLOAD_DIR", "")
GROUPS_KEPT_DAYS = env.integer("TXNCONSOLE_GROUPS_KEPT_DAYS", 90, low=1, high=36_500)
PRODUCERS_KEPT_DAYS = env.integer("TXNCONSOLE_PRODUCERS_KEPT_DAYS", 30, low=1, high=36_500)
JOBS_KEPT_DAYS = env.integer("TXNCONSOLE_JOBS_KEPT_DAYS", 30, low=1, high=36_500)
ARCHIVE_KEEP = env.integer("TXNCONSOLE_ARCHIVE_KEEP", 1_000_000, low=0, high=10**12)
#: Whether PostgreSQL may run without fsync and its like: for tests alone.
UNSAFE_DATABASES = env.boolean("TXNCONSOLE_UNSAFE_DATABASES", default=False)

#: A request answers within this time; "wait_ms" comes on top. It has a third of it to begin
#: statements; one that is under way then has a third, and so has writing down what has been done
#: (engine/postgres/deadlines.py).
REQUEST_TIMEOUT_MS = env.integer("TXNCONSOLE_REQUEST_TIMEOUT_MS", 30_000, low=15_000, high=60_000)
STATEMENT_TIMEOUT_MS = REQUEST_TIMEOUT_MS // 3 if Process.answers_requests else 60_000

# Django's own tables stand in the coordinators' database, in the schema "public".
DATABASES = {"default": django_database("DATABASE_URL", DATABASE_URL)}
# A pool, because an ASGI process serves each request in another thread. Its own attempts to connect
# come ever less often, so it begins anew before long.
DATABASE_POOL = {"min_size": 0, "max_size": 8, "timeout": 5, "reconnect_timeout": 5}
DATABASES["default"]["OPTIONS"]["pool"] = DATABASE_POOL
# No statement holds a request longer than the engine's may (engine/postgres/database.py).
DATABASES["default"]["OPTIONS"]["options"] = " ".join(
    [
        f"-c statement_timeout={STATEMENT_TIMEOUT_MS} -c lock_timeout=10s",
        "-c idle_in_transaction_session_timeout=60s",
        DATABASES["default"]["OPTIONS"].get("options", ""),
    ]
).strip()
# A server that restarted leaves dead connections in the pool; each is asked before it is used.
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Security ------------------------------------------------------------------------------------
DEBUG = env.boolean("DEBUG", default=False)
SECRET_KEY = env.text("SECRET_KEY", "")
if not SECRET_KEY:
    if os.environ.get("DATABASE_URL"):
        raise ImproperlyConfigured("SECRET_KEY must be set when DATABASE_URL is")
    # No server was ever started here: nothing that a key signs can exist.
    SECRET_KEY = get_random_secret_key()
#: Keys that hold beside it while it is changed (docs/operations.md, Secrets).
SECRET_KEY_FALLBACKS = env.items("SECRET_KEY_FALLBACKS", "")

ALLOWED_HOSTS = env.items("ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]")
CSRF_TRUSTED_ORIGINS = env.items("CSRF_TRUSTED_ORIGINS", "")
#: Whether users come over HTTPS. Only the local runner, which serves loopback, says no.
HTTPS = env.boolean("TXNCONSOLE_HTTPS", default=True)
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SECURE_HSTS_PRELOAD = HTTPS
#: Whether a proxy of ours is in front, whose word of a request's scheme and sender is believed.
BEHIND_PROXY = env.boolean("TXNCONSOLE_BEHIND_PROXY", default=False)
if BEHIND_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_REFERRER_POLICY = "same-origin"
CSRF_FAILURE_VIEW = "txnconsole.console.errors.form_expired"
SESSION_ENGINE = "txnconsole.access.session_store"
SESSION_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
#: The largest body of any call (txnconsole.api.limits); most calls take less.
DATA_UPLOAD_MAX_MEMORY_SIZE = 24 * 1024 * 1024
#: Files are looked at and not kept; none is larger than what memory takes.
FILE_UPLOAD_HANDLERS = [
    "txnconsole.console.transaction_document.Bounded",
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
]
FILE_UPLOAD_MAX_MEMORY_SIZE = DATA_UPLOAD_MAX_MEMORY_SIZE
AUTHENTICATION_BACKENDS = ["txnconsole.access.backend.UserBackend"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.ScryptPasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

LOGIN_URL = "console:login"

# --- Applications --------------------------------------------------------------------------------
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "txnconsole.enginedb",
    "txnconsole.audit",
    "txnconsole.idempotency",
    "txnconsole.access",
    "txnconsole.jobs",
    "txnconsole.refusals",
    "txnconsole.runs",
    "txnconsole.alerts",
    "txnconsole.trends",
    "txnconsole.preferences",
    "txnconsole.saved_views",
    "txnconsole.api",
    "txnconsole.console",
]
#: Whether spans are sent (txnconsole.tracing).
TRACES = env.boolean("TXNCONSOLE_TRACES", default=False)
MIDDLEWARE = [
    *(["txnconsole.tracing.TraceMiddleware"] if TRACES else []),
    "txnconsole.request_log.RequestLogMiddleware",
    "txnconsole.console.csp.content_security_policy",
    "txnconsole.api.middleware.count_requests",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "txnconsole.console.sessions.SessionsMiddleware",
    "txnconsole.api.time_limit.time_limit",
]
#: No page has a slash at its end, and /api/v1 without one is not there, as a problem document says.
APPEND_SLASH = False
ROOT_URLCONF = "txnconsole.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.messages.context_processors.messages",
                "txnconsole.console.shell.shell",
            ],
        },
    }
]

# --- Console -------------------------------------------------------------------------------------
#: What a page is told of a change goes with the browser, which asks no database for it.
MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"
#: Shown beside the search box, so that nobody takes production for a copy of it.
ENVIRONMENT_NAME = env.text("TXNCONSOLE_ENVIRONMENT", "")
#: Whether people may only read; programs go on.
READ_ONLY = env.boolean("TXNCONSOLE_READ_ONLY", default=False)

# --- REST API ------------------------------------------------------------------------------------
#: Of one token over all web processes (of each, with Redis away): a second, and at once.
REQUESTS_PER_SECOND = env.integer("TXNCONSOLE_REQUESTS_PER_SECOND", 5000, low=1, high=1_000_000)
REQUESTS_BURST = env.integer(
    "TXNCONSOLE_REQUESTS_BURST", 2 * REQUESTS_PER_SECOND, low=1, high=10_000_000
)
#: Requests that one web process works on at a time, and how many more may wait on purpose.
WEB_THREADS = env.integer("TXNCONSOLE_WEB_THREADS", 64, low=2, high=1024)
WAITING_CALLS = env.integer("TXNCONSOLE_WAITING_CALLS", 256, low=1, high=4096)
#: What the answers kept under an Idempotency-Key take of each principal, in bytes.
KEPT_ANSWERS_BYTES = env.integer("TXNCONSOLE_KEPT_ANSWERS_BYTES", 2**30, low=1_048_576, high=10**15)
#: Whether /readyz and /metrics answer anybody; else this machine, and callers with a role.
OPERATIONS_OPEN = env.boolean("TXNCONSOLE_OPERATIONS_OPEN", default=False)
#: Whether /metrics tells each partition and subscription, or each broker as a whole.
METRICS_BY_TOPIC = env.boolean("TXNCONSOLE_METRICS_BY_TOPIC", default=False)
#: Patterns of topics whose payloads viewers may read too; nobody but they is bound by it.
VIEWER_PAYLOADS = env.items("TXNCONSOLE_VIEWER_PAYLOADS", "")
REST_FRAMEWORK = {
    "DEFAULT_SCHEMA_CLASS": "txnconsole.api.schema.ContractSchema",
    "EXCEPTION_HANDLER": "txnconsole.api.errors.answer_error",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "txnconsole",
    "DESCRIPTION": (
        "Transactional messaging on PostgreSQL: transactions, topics, subscriptions.\n\n"
        f"Every call answers within {REQUEST_TIMEOUT_MS / 1000:g} seconds; `wait_ms` comes on top. "
        "One that is not done by then is given up with 504 `TimeLimitExceeded` and `Retry-After`. "
        "What it changes may have been done: the same call again does it once (producers by "
        "`sequence_id`, groups by their name, others by asking for a state or by "
        "`Idempotency-Key`)."
    ),
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "POSTPROCESSING_HOOKS": [],  # msgspec names enumerations itself.
    "SCHEMA_PATH_PREFIX": "/api/v1",
}

# --- Pipeline ------------------------------------------------------------------------------------
#: Spark jobs that run at the same time; each takes a JVM.
PIPELINE_RUNS = env.integer("TXNCONSOLE_PIPELINE_RUNS", 1, low=0, high=100)
#: How often which job starts by itself, such as ``audit=24h,metrics=5m``.
PIPELINE_SCHEDULE = env.intervals("TXNCONSOLE_PIPELINE_SCHEDULE", "")
#: How jobs that only read reach the databases; without it with the server's own rights.
READER_DATABASE_URL = env.database("TXNCONSOLE_READER_DATABASE_URL", DATABASE_URL)
READER_BROKER_DATABASE_URLS = env.databases(
    "TXNCONSOLE_READER_BROKER_DATABASE_URLS", ",".join(BROKER_DATABASE_URLS)
)
#: Where jobs reach the REST API.
PIPELINE_URL = env.text("TXNCONSOLE_URL", f"http://127.0.0.1:{os.environ.get('PORT', '8000')}")

# --- Alerts (docs/alerts.md) ---------------------------------------------------------------------
#: Where people reach the console, for links in messages, without a path; empty: no links.
PUBLIC_URL = env.text("TXNCONSOLE_PUBLIC_URL", "").rstrip("/")
#: Whether webhooks may go to private addresses: loopback, the company's own networks.
ALERTS_PRIVATE_ADDRESSES = env.boolean("TXNCONSOLE_ALERTS_PRIVATE_ADDRESSES", default=False)
EMAIL_BACKEND = env.text("EMAIL_BACKEND", "django.core.mail.backends.smtp.EmailBackend")
EMAIL_HOST = env.text("EMAIL_HOST", "")
EMAIL_PORT = env.integer("EMAIL_PORT", 25, low=1, high=65_535)
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = env.text("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_TLS = env.boolean("EMAIL_USE_TLS", default=False)
EMAIL_USE_SSL = env.boolean("EMAIL_USE_SSL", default=False)
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.text("DEFAULT_FROM_EMAIL", "txnconsole@localhost")

# --- Static files --------------------------------------------------------------------------------
STATIC_URL = "/static/"
STATIC_ROOT = Path(env.text("STATIC_ROOT", str(DATA_DIR / "static")))
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "txnconsole.static_files.LeanStaticFiles"
        if not DEBUG
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}

# --- Language and time ---------------------------------------------------------------------------
LANGUAGE_CODE = "en"
USE_I18N = False
TIME_ZONE = "UTC"

# --- Celery --------------------------------------------------------------------------------------
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)
# Without options of its own in the address Celery would check no certificate; redis-py does.
if REDIS_URL.startswith("rediss:"):
    CELERY_BROKER_USE_SSL = {"ssl_cert_reqs": ssl.CERT_REQUIRED}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# For ever: after the hundred attempts that Celery has by itself a worker would end.
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# A caller that wakes a worker must not wait long for a queue that is gone.
CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_connect_timeout": 1, "socket_timeout": 5}
# Celery closes Django's whole pool before each task and after it: each would begin by connecting.
# A connection goes back to the pool after the task (txnconsole/workers/observing.py).
CELERY_DB_REUSE_MAX = sys.maxsize
CELERY_BEAT_SCHEDULE = SCHEDULE
CELERY_BEAT_SCHEDULER = "txnconsole.workers.scheduler:IntervalScheduler"
CELERY_TASK_IGNORE_RESULT = True
# A worker takes tasks of both queues; `--queues` leaves it one, so that jobs have a machine of
# their own.
CELERY_TASK_QUEUES = [Queue("celery"), Queue("pipeline")]
CELERY_TASK_ROUTES = {"txnconsole.launch_runs": {"queue": "pipeline"}}
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_TIME_LIMIT = 60
CELERY_TASK_SOFT_TIME_LIMIT = 50
CELERY_WORKER_PREFETCH_MULTIPLIER = 1

# --- Logs and traces ------------------------------------------------------------------------------
LOGGING_CONFIG = None
logs.configure(
    level=env.choice("LOG_LEVEL", "INFO", among=logs.LEVELS),
    human=env.boolean("LOG_HUMAN", default=DEBUG),
    also=tracing.name_span if TRACES else None,
)
if TRACES:
    tracing.configure()
