"""The probe wrapped in the standard library's checker, which raises where a server breaks PEP 3333."""

from wsgiref.validate import validator

import probe

application = validator(probe.application)
