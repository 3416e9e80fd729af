"""A Django project with the settings that DJANGO_LIVE tells as JSON, for the tests of Django's own distribution."""

from __future__ import annotations

import json
import os

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.test.testcases import _MediaFilesHandler
from django.utils.module_loading import import_string

told = json.loads(os.environ["DJANGO_LIVE"])
settings.configure(**told["settings"])
django.setup()
application = get_wsgi_application()
if told["static_handler"]:
    application = import_string(told["static_handler"])(_MediaFilesHandler(application))
