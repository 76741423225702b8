"""Cache of the compiled search of `optimize`, shared between processes.

A cache directory may contain folders for several versions of opendrs, Numba and
Python, and for several processors. A folder is complete or absent, because it is
written under a temporary name and then renamed. A process that is killed while it
compiles leaves nothing to repair.

Compiled code is loaded only from folders that other users cannot write to.
"""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any

import opendrs
from opendrs.errors import StoreError
from opendrs.optimizer import register_compiled_code

CACHE_VARIABLE = "OPENDRS_CACHE"  # if set, the only directory for compiled code
NUMBA_CACHE_VARIABLE = "NUMBA_CACHE_DIR"  # otherwise searched first
FOLDER_PREFIX = "compiled-"
MANIFEST = "manifest.json"
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
COMMAND = "opendrs compile"
OTHER_DIRECTORY_HINT = (
    f"choose another: {COMMAND} --to DIR, and set {CACHE_VARIABLE}=DIR"
)
# Followed by the directory to compile for.
BACKGROUND_COMMAND = [sys.executable, "-m", "opendrs.controller.compiled_code"]

ReportLine = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CompilationVersion:
    """Versions that compiled code depends on.

    Attributes:
        opendrs: Fingerprint of the functions.
        numba: Version of Numba.
        python: Version of Python.
        processor: Instruction set.
    """

    opendrs: str
    numba: str
    python: str
    processor: str

    @property
    def folder(self) -> str:
        """Name of the folder for this version."""
        return FOLDER_PREFIX + sha256(repr(asdict(self)).encode()).hexdigest()[:16]

    @classmethod
    def of_this_process(cls) -> CompilationVersion:
        """Return the version that this process can load."""
        import numba  # noqa: PLC0415 - takes half a second
        from numba.core.registry import cpu_target  # noqa: PLC0415

        from opendrs.optimizer.compiled import entry_points  # noqa: PLC0415

        prints = "".join(each.fingerprint for each in entry_points.FUNCTIONS)
        target: Any = cpu_target
        processor = repr(target.target_context.codegen().magic_tuple())
        return cls(
            opendrs=sha256(prints.encode()).hexdigest()[:12],
            numba=numba.__version__,
            python=sys.implementation.cache_tag,
            processor=sha256(processor.encode()).hexdigest()[:12],
        )


def cache_directories(environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Return the directories that are searched for compiled code, in this order."""
    if environment.get(CACHE_VARIABLE):
        return (Path(environment[CACHE_VARIABLE]).absolute(),)
    directories = [Path(opendrs.__file__).parent / "__pycache__"]
    if environment.get(NUMBA_CACHE_VARIABLE):
        directories.insert(0, Path(environment[NUMBA_CACHE_VARIABLE]).absolute())
    with suppress(RuntimeError):  # no home directory
        home = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        directories.append(Path(home) / "opendrs")
    return tuple(directories)


def find_folder_in(directory: Path) -> Path | None:
    """Return the folder in *directory* that this process can load, or None."""
    if not _folders(directory):  # avoids the import of Numba
        return None
    folder = directory / CompilationVersion.of_this_process().folder
    return folder if (folder / MANIFEST).is_file() and _is_safe(folder) else None


def find_folder() -> Path | None:
    """Return the first folder that this process can load, or None."""
    candidates = (find_folder_in(directory) for directory in cache_directories())
    return next((each for each in candidates if each is not None), None)


def unusable_detail() -> str | None:
    """Return the reason why no folder can be used; None if there is no folder."""
    for directory in cache_directories():
        for folder in _folders(directory):
            if not _is_safe(folder):
                return f"{folder}: a link, or other users can write to it"
            with suppress(OSError, ValueError):
                made_for = json.loads((folder / MANIFEST).read_text())["version"]
                current = asdict(CompilationVersion.of_this_process())
                other = [
                    name for name in current if made_for.get(name) != current[name]
                ]
                return f"{folder}: made for another version of: {', '.join(other)}"
    return None


def load_folder(folder: Path) -> bool:
    """Load all functions from *folder*; return False if it is damaged."""
    from numba.core.compiler import CompileResult  # noqa: PLC0415

    from opendrs.optimizer.compiled import entry_points  # noqa: PLC0415

    contents = _read_contents(folder)
    if contents is None or len(contents) < len(entry_points.FUNCTIONS):
        return False
    rebuild: Any = CompileResult._rebuild  # noqa: SLF001 - as Numba's own cache does
    for function in entry_points.FUNCTIONS:
        dispatcher = function.dispatcher
        if dispatcher.signatures:
            continue
        context = dispatcher.targetctx
        context.refresh()
        reduced = pickle.loads(contents[function.name])  # noqa: S301 - see _is_safe
        result = rebuild(context, *reduced)
        context.insert_user_function(
            result.entry_point, result.fndesc, [result.library]
        )
        dispatcher.add_overload(result)
    return True


def compile_all(report_line: ReportLine) -> None:
    """Compile all functions in this process and report the progress.

    Args:
        report_line: Receives the name of each function and the elapsed seconds.
    """
    from opendrs.optimizer.compiled import entry_points  # noqa: PLC0415

    started_at = monotonic()
    for number, (function, run) in enumerate(entry_points.compilations(), 1):
        if function.dispatcher.signatures:
            continue
        report_line(
            f"compiling the search: {number} of {len(entry_points.FUNCTIONS)}, "
            f"{function.name} (after {monotonic() - started_at:.0f} s)"
        )
        run()


def ensure_folder(
    report_line: ReportLine, directory: Path | None = None
) -> tuple[Path, bool]:
    """Return the folder with compiled code; copy or compile it if there is none.

    Args:
        report_line: Receives the progress, or that another process compiles.
        directory: Cache directory; None for the first writable directory.

    Returns:
        The folder, and True if this call wrote it.

    Raises:
        StoreError: The folder cannot be written.
    """
    target = writable_directory() if directory is None else directory
    if target is None:
        candidates = ", ".join(map(str, cache_directories()))
        raise StoreError(
            f"compiled code: no writable directory: {candidates}; "
            f"{OTHER_DIRECTORY_HINT}"
        )
    try:
        with _locked(target, report_line):
            folder = find_folder_in(target)
            if folder is not None and _read_contents(folder) is not None:
                return folder, False
            other = find_folder()
            contents = None if other is None else _read_contents(other)
            if contents is None:
                compile_all(report_line)
                contents = _compiled_contents()
            return _write_contents(contents, target), True
    except OSError as error:
        raise StoreError(
            f"compiled code: {target}: {error.strerror or error}; "
            f"{OTHER_DIRECTORY_HINT}"
        ) from error


def provide_always(report_line: ReportLine) -> None:
    """Use the compiled search in this process; compile if necessary."""
    provider = CompiledCodeProvider(report_line)
    register_compiled_code(lambda _required: provider(True))  # noqa: FBT003


def require_compiled_code(report_line: ReportLine) -> None:
    """Load compiled code, or compile it in this process and cache it if possible."""
    folder = find_folder()
    if folder is not None and load_folder(folder):
        return
    try:
        load_folder(ensure_folder(report_line)[0])
    except StoreError as error:
        report_line(f"{error}; each process compiles until then")
        compile_all(report_line)


def writable_directory() -> Path | None:
    """Return the first writable cache directory; create it if necessary."""
    for directory in cache_directories():
        with suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=directory).close()
            return directory
    return None


class CompiledCodeProvider:
    """Provider of compiled code for the searches of this process.

    Args:
        report_line: Receives a line for each event.
        background: True to compile in another process if there is no compiled code.
    """

    def __init__(self, report_line: ReportLine, *, background: bool = False) -> None:
        self._report_line = report_line
        self._background = background
        self._available: bool | None = None
        self._process: subprocess.Popen[str] | None = None
        self._directory: Path | None = None
        self._temporary: Path | None = None

    def __call__(self, required: bool) -> bool:  # noqa: FBT001 - positional only
        """Return True if compiled code is available; compile it if it is required."""
        if self._available is None:
            folder = find_folder()
            self._available = folder is not None and load_folder(folder)
            if not self._available:
                self._report_unusable(folder)
        if self._available:
            return True
        if required:
            require_compiled_code(self._report_line)
            self._available = True
        elif self._background:
            self._poll_background()
        return self._available

    def close(self) -> None:
        """Stop the compiling process, if any, and remove its temporary files."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _report_unusable(self, folder: Path | None) -> None:
        damaged = None if folder is None else f"{folder}: damaged"
        detail = damaged or unusable_detail()
        if detail is not None:
            self._report_line(f"compiled code: {detail}; compile again: {COMMAND}")

    def _poll_background(self) -> None:
        """Start to compile in another process, or load the result."""
        if self._directory is None:
            self._start_background()
        elif self._process is not None and self._process.poll() is not None:
            _, error = self._process.communicate()
            self._process = None
            folder = find_folder_in(self._directory)
            if folder is not None and load_folder(folder):
                self._available = True
                self._report_line(f"compiled code: ready: {folder}; used from now on")
            else:
                last = error.strip().splitlines()[-1:] or ["no error was written"]
                self._report_line(
                    f"compiled code: not compiled: {last[0]}; run {COMMAND}"
                )

    def _start_background(self) -> None:
        directory = writable_directory()
        if directory is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="opendrs-compiled-"))
            directory = self._temporary
        self._directory = directory
        self._process = subprocess.Popen(  # noqa: S603 - this program
            [*BACKGROUND_COMMAND, str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._report_line(
            "compiled code: none found; compiling in the background for about 20 s "
            f"of one processor: {directory}; planning with the plain search until then"
        )


def _folders(directory: Path) -> list[Path]:
    try:
        return sorted(directory.glob(FOLDER_PREFIX + "*"))
    except OSError:
        return []


def _is_safe(folder: Path) -> bool:
    """Return True if only this user or root can have written to *folder*.

    Symbolic links are rejected: the target could change before the code is read.
    """
    try:
        status = folder.lstat()
    except OSError:
        return False
    is_owned = status.st_uid in (0, os.geteuid())
    return (
        is_owned
        and stat.S_ISDIR(status.st_mode)
        and not status.st_mode & WRITABLE_BY_OTHERS
    )


def _compiled_contents() -> dict[str, bytes]:
    """Return the code of all functions, which this process has compiled."""
    from numba.core.serialize import dumps  # noqa: PLC0415

    from opendrs.optimizer.compiled import entry_points  # noqa: PLC0415

    dump: Any = dumps
    code = {}
    for function in entry_points.FUNCTIONS:
        (result,) = function.dispatcher.overloads.values()
        code[function.name] = dump(result._reduce())  # noqa: SLF001 - as in `load`
    return code


def _read_contents(folder: Path) -> dict[str, bytes] | None:
    """Return the code of each function in *folder*; None if it is damaged."""
    try:
        sums = json.loads((folder / MANIFEST).read_text())["sha256"]
        code = {name: (folder / f"{name}.bin").read_bytes() for name in sums}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    is_intact = all(_checksum(content) == sums[name] for name, content in code.items())
    return code if is_intact else None


def _write_contents(code: Mapping[str, bytes], directory: Path) -> Path:
    """Write *code* to the folder of this version and return the folder."""
    version = CompilationVersion.of_this_process()
    for old in directory.glob(".new-*"):  # of a process that was killed
        shutil.rmtree(old, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix=".new-", dir=directory))
    for name, content in code.items():
        (new / f"{name}.bin").write_bytes(content)
    sums = {name: _checksum(content) for name, content in code.items()}
    manifest = {"version": asdict(version), "sha256": sums}
    (new / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    for file in new.iterdir():
        file.chmod(0o644)
    new.chmod(0o755)
    folder = directory / version.folder
    shutil.rmtree(folder, ignore_errors=True)  # an existing folder is damaged
    new.rename(folder)
    return folder


def _checksum(content: bytes) -> str:
    return sha256(content).hexdigest()


@contextmanager
def _locked(directory: Path, report_line: ReportLine) -> Iterator[None]:
    """Hold the lock that lets one process at a time compile for *directory*."""
    directory.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(directory / ".compiled.lock", flags, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report_line(
                f"compiled code: another process compiles: {directory}; waiting"
            )
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _main() -> None:
    os.nice(19)
    ensure_folder(lambda _: None, Path(sys.argv[1]))


if __name__ == "__main__":
    _main()
