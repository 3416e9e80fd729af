"""Settings for the tests of Django's source distribution: databases in files, so that two processes see the same."""

from __future__ import annotations

import os
from pathlib import Path

DIRECTORY = Path(os.environ["DJANGO_SUITE_DIRECTORY"])

DATABASES = {
    alias: {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(DIRECTORY / alias),
        "TEST": {"NAME": str(DIRECTORY / f"test_{alias}")},
    }
    for alias in ("default", "other")
}
SECRET_KEY = "django_tests_secret_key"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
