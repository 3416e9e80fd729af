"""Finds the WSGI application that an operator named.

Four spellings are understood:

* ``module:callable``, where the callable may be an attribute of an attribute (``module:site.app``);
* ``module.callable``, as wsgid has it;
* a path to a ``.py`` or ``.wsgi`` file, with or without ``:callable``;
* ``module``: then its ``application``, or else its ``app``, is taken.

``()`` behind a callable calls it once, to get the application from it.

Whatever is wrong becomes one LoadError. Where the application's own code failed, it carries that
traceback, without a line of ours.
"""

import difflib
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any, NamedTuple

DEFAULT_NAMES = ("application", "app")


class LoadError(Exception):
    """The application cannot be loaded. The message is one line."""

    def __init__(self, message: str, trace: str | None = None) -> None:
        """Keep the message, and the traceback of the application where it failed by itself."""
        super().__init__(message)
        self.trace = trace

    def report(self) -> str:
        """Give the message, and the traceback below it."""
        return str(self) if self.trace is None else f"{self}\n{self.trace}"


class _Target(NamedTuple):
    """A specification, taken apart."""

    module: str
    attributes: str | None
    call: bool


def prepare_path(app_path: str) -> None:
    """Let modules be found in `app_path` first, and at last in wsgid's `app` folder below it."""
    if getattr(sys.flags, "safe_path", False) or not sys.path:
        sys.path.insert(0, app_path)
    else:
        # `python -m` has put the working directory there.
        sys.path[0] = app_path
    inner = os.path.join(app_path, "app")
    if os.path.isdir(inner):
        sys.path.append(inner)


def load(spec: str, app_path: str = ".") -> Callable[..., Any]:
    """Give the application that `spec` names; relative file names start at `app_path`."""
    path, name = _split_path(spec, app_path)
    if path is not None:
        target = _parse_attributes(spec, path, name)
        return _pick(spec, _import_file(spec, path), target)
    if ":" in spec:
        module, _, name = spec.partition(":")
        target = _parse_attributes(spec, module, name)
        return _pick(spec, _import(spec, target.module), target)
    return _load_dotted(spec)


def _split_path(spec: str, app_path: str) -> tuple[str | None, str | None]:
    """Tell whether `spec` is a file, and give its path and what follows the colon."""
    head, colon, tail = spec.rpartition(":")
    file, name = (head, tail) if colon and os.sep not in tail else (spec, None)
    path = os.path.join(app_path, os.path.expanduser(file))
    if os.sep in file or file.endswith(".py"):
        return path, name
    # `site.wsgi` is a module to many: only a file of that name makes it a file.
    if file.endswith(".wsgi") and os.path.isfile(path):
        return path, name
    return None, None


def _parse_attributes(spec: str, module: str, name: str | None) -> _Target:
    if name is None:
        return _Target(module, None, False)
    call = name.endswith("()")
    attributes = name[:-2] if call else name
    if not module or not all(part.isidentifier() for part in attributes.split(".")):
        raise LoadError(
            f"cannot understand the application {spec!r}: expected module:callable, "
            "module:factory(), module.callable, or the path of a file"
        )
    return _Target(module, attributes, call)


def _load_dotted(spec: str) -> Callable[..., Any]:
    """Load `module`, `module.callable` or `package.module`."""
    module, _, name = spec.rpartition(".")
    if not module:
        target = _parse_attributes(spec, "-", spec)
        if target.call:
            raise LoadError(f"cannot understand the application {spec!r}: which module is it in?")
        return _pick(spec, _import(spec, spec), _Target(spec, None, False))
    target = _parse_attributes(spec, module, name)
    parent = _import(spec, module)
    attribute = target.attributes or ""
    # `package.module` means the module, even if the package happens to have imported it already.
    if not target.call and isinstance(getattr(parent, attribute, None), ModuleType | None):
        try:
            found = importlib.util.find_spec(spec)
        except ImportError:
            found = None
        if found is not None:
            return _pick(spec, _import(spec, spec), _Target(spec, None, False))
    return _pick(spec, parent, target)


def _import(spec: str, name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise LoadError(f"cannot load {spec!r}: {name!r} is no module name")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if _users_part(error.__traceback__) is None:
            missing = "" if error.name in (None, name) else f" (there is no {error.name!r})"
            raise LoadError(
                f"cannot load {spec!r}: no module named {name!r}{missing} in {sys.path[0]!r} "
                "or elsewhere on the Python path"
            ) from None
        raise _failed(spec, f"module {name!r} failed while it was imported", error) from None
    except BaseException as error:
        raise _failed(spec, f"module {name!r} failed while it was imported", error) from None


def _import_file(spec: str, path: str) -> ModuleType:
    path = os.path.abspath(path)
    if not os.path.isfile(path):
        raise LoadError(f"cannot load {spec!r}: there is no file {path!r}")
    folder, base = os.path.split(path)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = os.path.splitext(base)[0]
    if not name.isidentifier() or name in sys.modules:
        name = "lurcher_application"
    loader = importlib.machinery.SourceFileLoader(name, path)
    module_spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if module_spec is None:
        raise LoadError(f"cannot load {spec!r}: {path!r} is no Python file")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException as error:
        raise _failed(spec, f"{path!r} failed while it was loaded", error) from None
    return module


def _pick(spec: str, module: ModuleType, target: _Target) -> Callable[..., Any]:
    """Take the callable out of the module."""
    where = f"module {module.__name__!r}"
    value: Any = module
    if target.attributes is None:
        for name in DEFAULT_NAMES:
            if hasattr(module, name):
                value, path = getattr(module, name), name
                break
        else:
            names = " or ".join(map(repr, DEFAULT_NAMES))
            raise LoadError(f"cannot load {spec!r}: {where} has no {names}{_near(module, 'app')}")
    else:
        path = target.attributes
        for name in path.split("."):
            try:
                value = getattr(value, name)
            except AttributeError:
                near = _near(value, name)
                raise LoadError(f"cannot load {spec!r}: {where} has no {path!r}{near}") from None
    if not callable(value):
        kind = type(value).__name__
        raise LoadError(
            f"cannot load {spec!r}: {path!r} in {where} is not callable (it is a {kind})"
        )
    if not target.call:
        return value  # type: ignore[no-any-return]
    try:
        made = value()
    except BaseException as error:
        raise _failed(spec, f"{path}() in {where} failed", error) from None
    if not callable(made):
        kind = type(made).__name__
        raise LoadError(f"cannot load {spec!r}: {path}() in {where} gave a {kind}, not a callable")
    return made  # type: ignore[no-any-return]


def _near(owner: Any, name: str) -> str:
    """Name what the operator may have meant."""
    names = [other for other in dir(owner) if not other.startswith("_")]
    callables = [other for other in names if callable(getattr(owner, other, None))]
    near = difflib.get_close_matches(name, callables, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def _failed(spec: str, what: str, error: BaseException) -> LoadError:
    summary = traceback.format_exception_only(error)[-1].strip()
    trace = _users_part(error.__traceback__)
    lines = traceback.format_exception(type(error), error, trace)
    return LoadError(f"cannot load {spec!r}: {what}: {summary}", "".join(lines))


def _users_part(trace: TracebackType | None) -> TracebackType | None:
    """Skip the frames of this module and of the import machinery."""
    ours = (__file__, importlib.__file__)
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file not in ours and not file.startswith("<frozen importlib"):
            return trace
        trace = trace.tb_next
    return None
