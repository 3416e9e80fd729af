"""What `--preload` saves: the memory of 8 workers of a Django application, with and without it.

    PYTHONPATH=scripts:tests/python .venv/bin/python benches/preload.py [workers]

This file is the application too: Django with admin, sessions and a database. The figure is PSS (proportional set size)
of all Python processes of the instance, the template included, after 50 requests for each worker: what is shared counts
once. Needs Django (requirements-suites.txt).
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

INSTALLED = ["admin", "auth", "contenttypes", "sessions", "messages", "staticfiles"]

urlpatterns: list[object] = []


def configure() -> None:
    """Set Django up as a project of the usual kind would."""
    from django.conf import settings

    settings.configure(
        ALLOWED_HOSTS=["*"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=[f"django.contrib.{name}" for name in INSTALLED],
        MIDDLEWARE=[
            "django.middleware.security.SecurityMiddleware",
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.common.CommonMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        ROOT_URLCONF="preload",
        SECRET_KEY="for a bench",  # noqa: S106
        STATIC_URL="static/",
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
    )


def make_application() -> object:
    """Give the WSGI application."""
    import django
    from django.core.handlers.wsgi import WSGIHandler

    configure()
    django.setup(set_prefix=False)
    from django.contrib import admin
    from django.urls import path

    urlpatterns.append(path("admin/", admin.site.urls))
    return WSGIHandler()


def pss_kib(pid: int) -> int:
    """Give the proportional set size of a process."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss: +(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) if found else 0


def measure(directory: Path, workers: int, options: list[str]) -> tuple[int, int]:
    """Give the processes there are, and their memory in KiB."""
    from support.load import Load
    from support.rawhttp import get
    from support.stage import Stage
    from support.waiting import wait_for

    stage = Stage(directory)
    front = stage.mongrel2()
    words = [*front.options, "--workers", str(workers), *options]
    app = ["--wsgi-app", "preload:make_application()", "--app-path", str(Path(__file__).parent)]
    lurcher = stage.lurcher(*words, *app, app=None)
    wait_for("the workers", lambda: lurcher.err().count("is ready after") == workers, 120)
    page = get(front.port, "/admin/login/")
    if page.status != 200:
        raise SystemExit(f"no page: {page}")
    load = Load(front.port, 2 * workers, lambda _: "/admin/login/").start()
    wait_for("the requests", lambda: load.done() >= 50 * workers, 120)
    load.stop()
    pids = [pid for pid in lurcher.processes() if pid != lurcher.pid]
    memory = sum(map(pss_kib, pids))
    stage.clear_away()
    return len(pids), memory


def main() -> int:
    """Measure both ways."""
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    found = []
    for name, options in [("each loads by itself", []), ("--preload", ["--preload"])]:
        with tempfile.TemporaryDirectory() as directory:
            processes, memory = measure(Path(directory), workers, options)
        found.append(memory)
        print(f"{workers} workers, {name}: {processes} processes, {memory / 1024:.1f} MiB PSS")
    print(f"saved: {100 * (1 - found[1] / found[0]):.0f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
