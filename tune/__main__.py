"""`python -m tune`: works on studies, shows them, and says what they found.

Exit codes: 0 done, 2 usage, 3 every trial failed or there is no result, 5 the storage or a package is out of reach,
130 interrupted. The last line says why.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edge_runtime.nearest import suggestion
from edge_runtime.version import VERSION
from tune.errors import TuneError, UsageError

COMMANDS = {
    "worker": "take trials of a study until none is left",
    "dashboard": "show a storage's studies in the browser, for reading alone",
    "status": "counts, and the best trial or the Pareto front",
    "best": "parameters of the best trial, as JSON",
    "export": "every trial as CSV or JSON",
    "proxy": "serve a storage to workers on other machines by gRPC",
}
FOLDER = Path(".edgepress") / "tune"


def main(arguments: Sequence[str] | None = None) -> int:
    """Executes a command line and gives its exit code. Errors go to stderr, unless `--debug` is given."""
    parsed = None
    try:
        parsed = _parse(sys.argv[1:] if arguments is None else list(arguments))
        _EXECUTE[parsed.command](parsed)
        sys.stdout.flush()
    except SystemExit as exit_:  # argparse, after --help and --version
        return int(exit_.code or 0)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    except Exception as error:
        code = getattr(error, "exit_code", None)
        if getattr(parsed, "debug", False):
            raise
        if isinstance(error, TuneError) or isinstance(code, int):
            print(f"error: {error}", file=sys.stderr)
            return int(code if code is not None else 3)
        print(f"error: {type(error).__name__}: {error} (--debug shows the traceback)", file=sys.stderr)
        return 3
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise UsageError([f"{self.format_usage().rstrip()}\n{message}"])


def _parse(arguments: list[str]) -> argparse.Namespace:
    word = next((argument for argument in arguments if not argument.startswith("-")), None)
    if word is not None and word not in COMMANDS:
        raise UsageError([f"unknown command '{word}'{suggestion(word, COMMANDS)}"])
    parser = _Parser(prog="python -m tune", description="Works on studies and shows them.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
        _OPTIONS[name](command)
        command.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser.parse_args(arguments)


def _add_url(parser: argparse.ArgumentParser, required: bool = True) -> None:
    parser.add_argument(
        "url",
        metavar="URL",
        nargs=None if required else "?",
        help="a journal file, sqlite:///FILE, postgresql://USER@HOST/DATABASE or grpc://HOST:PORT",
    )


def _study_options(parser: argparse.ArgumentParser) -> None:
    _add_url(parser)
    parser.add_argument("--study", metavar="NAME", help="the study (default: the only one of the storage)")


def _worker_options(parser: argparse.ArgumentParser) -> None:
    _study_options(parser)
    parser.add_argument("--folder", metavar="FOLDER", type=Path, default=FOLDER, help=_FOLDER_HELP)
    parser.add_argument("--index", metavar="N", type=_count, help="fixes a worker's draws (default: random)")
    parser.add_argument("--timeout", metavar="SECONDS", type=_seconds, help="take no trial after this time")
    parser.add_argument("--wait", metavar="SECONDS", type=_seconds, default=30.0, help=_WAIT_HELP)


def _dashboard_options(parser: argparse.ArgumentParser) -> None:
    _add_url(parser, required=False)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine alone)")
    parser.add_argument("--port", type=_count, default=8080, help="port to listen on (default: 8080; 0: a free one)")
    parser.add_argument("--artifacts", metavar="FOLDER", type=Path, help="the study's artifacts (default: found)")


def _best_options(parser: argparse.ArgumentParser) -> None:
    _study_options(parser)
    parser.add_argument(
        "--pick", metavar="OBJECTIVE<=VALUE", action="append", default=[], help="a limit that the trial must keep"
    )


def _export_options(parser: argparse.ArgumentParser) -> None:
    _study_options(parser)
    parser.add_argument("--format", default="csv", help="csv or json (default: csv)")


def _proxy_options(parser: argparse.ArgumentParser) -> None:
    _add_url(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine alone)")
    parser.add_argument("--port", type=_count, default=13000, help="port to listen on (default: 13000)")


def _worker(parsed: argparse.Namespace) -> None:
    from tune.storage import open_storage
    from tune.study import find_function, open_study
    from tune.worker import Options, work

    opened = open_study(open_storage(parsed.url, patience=parsed.wait), parsed.study)
    if opened.settings.function is None:
        raise UsageError([f"study: '{opened.settings.name}' names no function, so that only its own program can work"])
    doing = find_function(opened.settings.function)(opened.settings.payload)
    # Workers that draw the same numbers would try the same points.
    index = parsed.index if parsed.index is not None else secrets.randbits(32)
    options = Options(parsed.folder.absolute(), index, parsed.timeout)
    with _interruptible():
        done = work(opened, doing, options, lambda line: print(line, file=sys.stderr, flush=True))
    print(f"{done.complete} complete, {done.cut} cut, {done.failed} failed")


def _dashboard(parsed: argparse.Namespace) -> None:
    from tune.dashboard import make_server

    url = parsed.url or _only_journal()
    server = make_server(url, parsed.host, parsed.port, parsed.artifacts or _artifacts_of(url))
    host = f"[{parsed.host}]" if ":" in parsed.host else parsed.host
    print(f"http://{host}:{server.server_port}/dashboard/", flush=True)
    with _interruptible(), server:
        server.serve_forever()


def _only_journal() -> Path:
    found = sorted(FOLDER.glob("*.journal"))
    if len(found) != 1:
        names = f"there are {', '.join(map(str, found))}" if found else "there is none"
        raise UsageError([f"URL: name a storage; below {FOLDER} {names}"])
    return found[0]


def _artifacts_of(url: str | Path) -> Path | None:
    """Where a worker puts artifacts: beside the journal, in the folder of the study, which is called like it."""
    from tune.artifacts import FOLDER as ARTIFACTS
    from tune.storage import parse_url

    path = parse_url(url).path
    return path.parent / path.stem / ARTIFACTS if path is not None else None


def _status(parsed: argparse.Namespace) -> None:
    from tune.results import status_text

    print(status_text(_reading(parsed)))


def _best(parsed: argparse.Namespace) -> None:
    import json

    from tune.results import best, records

    opened = _reading(parsed)
    found = best(records(opened), opened.settings, dict(map(_limit, parsed.pick)))
    print(json.dumps({"trial": found.number, "values": found.values, "params": found.params}, indent=1))


def _limit(text: str) -> tuple[str, Any]:
    from tune.results import Limit

    for sign in ("<=", ">="):
        name, found, value = text.partition(sign)
        if found:
            try:
                return name.strip(), Limit(float(value), sign == "<=")
            except ValueError:
                break
    raise UsageError([f"--pick: expected OBJECTIVE<=VALUE or OBJECTIVE>=VALUE, got '{text}'"])


def _export(parsed: argparse.Namespace) -> None:
    from tune.results import export

    print(export(_reading(parsed), parsed.format), end="")


def _reading(parsed: argparse.Namespace) -> Any:
    from tune.storage import open_storage
    from tune.study import open_study

    return open_study(open_storage(parsed.url, read_only=True), parsed.study)


def _proxy(parsed: argparse.Namespace) -> None:
    from tune.storage import open_storage

    storage = open_storage(parsed.url)
    try:
        from optuna.storages import run_grpc_proxy_server
    except ImportError as error:
        from tune.errors import MissingPackage

        raise MissingPackage(f"a package is missing ({error}); install edgepress[tune]") from error
    print(f"grpc://{parsed.host}:{parsed.port}", flush=True)
    with _interruptible(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ExperimentalWarning
        run_grpc_proxy_server(storage, host=parsed.host, port=parsed.port)


class _interruptible:
    """SIGTERM, which schedulers send, ends the block like Ctrl-C does: the trial is given back first."""

    def __enter__(self) -> None:
        self._before: Any = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._interrupt)

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    @staticmethod
    def _interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"expected a whole number, got '{text}'")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got '{text}'")
    return value


_FOLDER_HELP = f"where trials keep checkpoints and artifacts (default: {FOLDER})"
_WAIT_HELP = "how long a storage that does not answer is asked again (default: 30)"
_OPTIONS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "worker": _worker_options,
    "dashboard": _dashboard_options,
    "status": _study_options,
    "best": _best_options,
    "export": _export_options,
    "proxy": _proxy_options,
}
_EXECUTE: dict[str, Callable[[argparse.Namespace], None]] = {
    "worker": _worker,
    "dashboard": _dashboard,
    "status": _status,
    "best": _best,
    "export": _export,
    "proxy": _proxy,
}

if __name__ == "__main__":
    sys.exit(main())
