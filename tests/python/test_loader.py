"""How the application that an operator names is found, and what is said when it is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lurcher.loader import LoadError, load, prepare_path


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder on the Python path, of which nothing stays."""
    path, modules = list(sys.path), set(sys.modules)
    sys.path.insert(0, str(tmp_path))
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def failure(spec: str, folder: Path) -> LoadError:
    with pytest.raises(LoadError) as caught:
        load(spec, str(folder))
    assert "\n" not in str(caught.value)
    assert repr(spec) in str(caught.value)
    return caught.value


GOOD = """
def application(environ, start_response): return "application"
def app(environ, start_response): return "app"
def make(): return application
class Site:
    class inner:
        @staticmethod
        def app(environ, start_response): return "inner"
site = Site()
"""


@pytest.mark.parametrize(
    ("spec", "result"),
    [
        ("good:app", "app"),
        ("good:site.inner.app", "inner"),
        ("good:make()", "application"),
        ("good.app", "app"),
        ("good.make()", "application"),
        ("good", "application"),
        ("package.part:app", "app"),
        ("package.part.app", "app"),
        ("package.part", "application"),
        ("package.part.make()", "application"),
        ("package:app", "package"),
        ("package.app", "package"),
        ("file.wsgi", "application"),
        ("file.wsgi:app", "app"),
        ("./file.wsgi:make()", "application"),
        ("good.py", "application"),
        ("good.py:site.inner.app", "inner"),
        ("with-dash.py:app", "app"),
        ("json.py", "application"),
        ("project.wsgi:app", "app"),
        ("project.wsgi", "application"),
    ],
)
def test_spellings(folder: Path, spec: str, result: str) -> None:
    for name in ("good.py", "file.wsgi", "with-dash.py", "json.py", "package/part.py"):
        write(folder, name, GOOD)
    write(folder, "package/__init__.py", "def app(e, s): return 'package'\n")
    # As in a Django project: a module that ends as a file would.
    write(folder, "project/__init__.py", "")
    write(folder, "project/wsgi.py", GOOD)
    assert load(spec, str(folder))({}, None) == result


def test_absolute_paths(folder: Path) -> None:
    path = write(folder, "elsewhere/deep.wsgi", "import neighbour\napp = neighbour.app\n")
    write(folder, "elsewhere/neighbour.py", GOOD)
    assert load(str(path), "/")({}, None) == "app"
    assert load(f"{path}:app", "/")({}, None) == "app"


def test_a_package_that_has_imported_its_module(folder: Path) -> None:
    write(folder, "eager/__init__.py", "from eager import wsgi\n")
    write(folder, "eager/wsgi.py", GOOD)
    assert load("eager.wsgi")({}, None) == "application"
    assert load("eager:wsgi.app")({}, None) == "app"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nothere:app", "no module named 'nothere'"),
        ("nothere", "no module named 'nothere'"),
        ("nothere.app", "no module named 'nothere'"),
        ("good.nothere.app", "no module named 'good.nothere'"),
        ("nothere.deep:app", "no module named 'nothere.deep' (there is no 'nothere')"),
        ("nothere.py", "there is no file"),
        ("./nothere.wsgi", "there is no file"),
        ("good:aplication", "has no 'aplication'; did you mean 'application'"),
        ("good.aplication", "has no 'aplication'; did you mean 'application'"),
        ("good:site.inner.ap", "has no 'site.inner.ap'; did you mean 'app'"),
        ("good:number", "'number' in module 'good' is not callable (it is a int)"),
        ("good:none", "is not callable (it is a NoneType)"),
        ("good:bad()", "bad() in module 'good' gave a int, not a callable"),
        ("bare", "has no 'application' or 'app'; did you mean 'my_app'"),
        ("good:", "expected module:callable"),
        (":app", "expected module:callable"),
        ("good:app(1)", "expected module:callable"),
        ("good:a b", "expected module:callable"),
        ("not a module:app", "'not a module' is no module name"),
        ("make()", "which module"),
        ("", "expected module:callable"),
        ("..app", "is no module name"),
    ],
)
def test_one_clear_line(folder: Path, spec: str, message: str) -> None:
    write(folder, "good.py", GOOD + "number = 1\nnone = None\ndef bad(): return 1\n")
    write(folder, "bare.py", "def my_app(): pass\n")
    error = failure(spec, folder)
    assert message in str(error)
    assert error.trace is None
    assert error.report() == str(error)


@pytest.mark.parametrize(
    ("text", "spec", "summary", "where"),
    [
        ("import nowhere\n", "own:app", "ModuleNotFoundError: No module named 'nowhere'", "line 1"),
        ("\n\n1 / 0\n", "own:app", "ZeroDivisionError: division by zero", "line 3"),
        ("def app(:\n", "own:app", "SyntaxError: invalid syntax", "line 1"),
        ("raise SystemExit(3)\n", "own.app", "SystemExit: 3", "line 1"),
        ("raise KeyboardInterrupt\n", "own.py", "KeyboardInterrupt", "line 1"),
        ("import own2\n", "own:app", "NameError: name 'oops' is not defined", "own2.py"),
        (
            "def make():\n    oops\n",
            "own:make()",
            "NameError: name 'oops' is not defined",
            "line 2",
        ),
    ],
)
def test_the_applications_own_failures(
    folder: Path, text: str, spec: str, summary: str, where: str
) -> None:
    write(folder, "own.py", text)
    write(folder, "own2.py", "oops\n")
    error = failure(spec, folder)
    assert summary in str(error)
    assert error.trace is not None
    assert where in error.trace
    assert summary in error.trace
    assert "loader.py" not in error.report()
    assert "importlib" not in error.report()


def test_chained_failures_keep_both(folder: Path) -> None:
    text = (
        "try:\n    import nowhere\nexcept ImportError as e:\n    raise RuntimeError('x') from e\n"
    )
    write(folder, "own.py", text)
    report = failure("own:app", folder).report()
    assert "No module named 'nowhere'" in report
    assert "direct cause" in report
    assert "importlib" not in report


def test_the_python_path(folder: Path) -> None:
    (folder / "app").mkdir()
    first = sys.path[0]
    prepare_path(str(folder))
    assert sys.path[0] == str(folder)
    assert sys.path[-1] == str(folder / "app")
    assert first not in sys.path[1:2]
